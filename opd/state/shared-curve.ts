/**
 * The curve that nodes share. Nodes train on the same updates in different orders, which moves their curves apart by up to
 * .2 in the chance of winning. So the node with the lease shares its curve, and the others replace theirs by it. A node
 * trains the adopted curve again with the updates that it lacks, so nothing that was learned is lost.
 */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { Mode } from '../pricing/arms.ts'
import type { Log } from '../shared/log.ts'
import { type Envelope, VersionVector } from './envelope.ts'
import type { ModelStore } from './model-store.ts'
import type { SharedModelBus, SharedModelHead } from './shared-model.ts'
import { compress, maxBytes } from './snapshots.ts'

const decompress = promisify(gunzip)

/** Deltas that a node keeps because a shared curve may lack them. Of older ones, the next curve has them. */
const maxRecent = 1000
/** Milliseconds between two curves, of which each is some 3 MiB: every second round. */
const shareEvery = 3500

export class SharedCurve {
  readonly counts = { shared: 0, adopted: 0, refused: 0 }
  private readonly mode: Mode
  private readonly models: ModelStore
  private readonly bus: SharedModelBus
  private readonly log: Log
  private readonly serves: boolean
  private readonly now: () => number
  /** Deltas of this node that were sent, and of others that were merged. */
  private recent: Envelope[] = []
  private isChanged = false
  private number = 0
  /** Of the curve that was seen last. */
  private version = 0
  private refused = 0
  private sharedAt = Number.NEGATIVE_INFINITY

  /** `serves`: this node adopts curves and does not train its own. */
  constructor(
    mode: Mode,
    {
      models,
      bus,
      log,
      serves,
      now,
    }: {
      models: ModelStore
      bus: SharedModelBus
      log: Log
      serves: boolean
      now: () => number
    },
  ) {
    this.mode = mode
    this.models = models
    this.bus = bus
    this.log = log
    this.serves = serves
    this.now = now
  }

  /** Whether a curve was shared or adopted. */
  get has(): boolean {
    return this.number > 0
  }

  /** A delta was sent or merged. */
  changed(envelope: Envelope): void {
    if (this.serves) return
    this.isChanged = true
    this.recent.push(envelope)
    if (this.recent.length > maxRecent) this.recent.shift()
  }

  /**
   * At the end of a round. `leads`: this node has the lease of the shared model. `send` and `receive` exchange the deltas
   * that came meanwhile.
   */
  async follow(
    leads: boolean,
    send: () => Promise<void>,
    receive: () => Promise<void>,
  ): Promise<void> {
    const { bus, mode, models } = this
    const look = await bus.look(`${mode}-curve`, models.node, leads, this.number)
    this.version = Math.max(this.version, look.head?.version ?? 0)
    if (leads) {
      const due = this.isChanged && this.now() - this.sharedAt >= shareEvery
      if (look.leads && due) await this.share(send)
      return
    }
    const { number, head } = look
    if (head === null || number === this.refused) return
    if (!this.serves && this.lacks(head)) await receive()
    if (await this.adopt(head, number)) this.number = number
  }

  private get state() {
    return this.models.of(this.mode)
  }

  private name(version: number): void {
    this.version = version
    Object.assign(this.state, { version, isShared: true })
  }

  private lacks({ epoch, seen }: SharedModelHead): boolean {
    return epoch !== this.state.epoch || this.state.seen.lacks(seen)
  }

  private async share(send: () => Promise<void>): Promise<void> {
    const { bus, mode, models, state } = this
    let head: SharedModelHead | null = null
    const version = Math.max(this.version, state.version) + 1
    const slices = state.learner.sharing(() => {
      models.takeDelta(mode)
      head = { epoch: state.epoch, seen: state.seen.rows(), version }
    })
    this.isChanged = false
    this.sharedAt = this.now()
    let slice = slices.next()
    for (; !slice.done; slice = slices.next()) await new Promise(setImmediate)
    // A learner without a curve has nothing to share.
    if (slice.value.length === 0) return
    const bytes = await compress(slice.value)
    // The other nodes adopt the curve when they have all that is in it.
    await send()
    if (head === null || (head as SharedModelHead).epoch !== state.epoch) return
    const number = await bus.writeModel(`${mode}-curve`, models.node, head, bytes)
    if (number === 0) return
    this.number = number
    this.name(version)
    this.counts.shared++
  }

  /** false: it is tried again in the next round. */
  private async adopt(head: SharedModelHead, number: number): Promise<boolean> {
    const { bus, mode, state } = this
    const bytes = await bus.readModel(`${mode}-curve`)
    if (bytes === null) return false
    try {
      const { buffer, byteOffset, length } = await decompress(bytes, { maxOutputLength: maxBytes })
      // `slice` of a Buffer would be a view.
      const curve = new Uint8Array(buffer, byteOffset, length)
      const slices = state.learner.adopting(curve, () => this.missing(head))
      let slice = slices.next()
      for (; !slice.done; slice = slices.next()) await new Promise(setImmediate)
      if (!slice.value) return false
      this.counts.adopted++
      this.name(head.version ?? 0)
      return true
    } catch (error) {
      this.counts.refused++
      this.refused = number
      this.log.error({ mode, err: (error as Error).message }, 'a shared curve was refused')
      return false
    }
  }

  /** The deltas that this node has and the curve lacks; null: the curve is of another epoch, or has more. */
  private missing(head: SharedModelHead): Uint8Array[] | null {
    if (this.serves) return head.epoch === this.state.epoch ? [] : null
    if (this.lacks(head)) return null
    const shared = new VersionVector(head.seen)
    const isMissing = ({ node, sequence, epoch }: Envelope) =>
      epoch === head.epoch && !shared.has(node, sequence)
    this.recent = this.recent.filter(isMissing)
    // Updates of this node since its last delta are in the outbox now.
    const unsent = this.models.takeDelta(this.mode).filter(isMissing)
    const sent = new Set(this.recent)
    return [...this.recent, ...unsent.filter((each) => !sent.has(each))].map(({ delta }) => delta)
  }
}
