/**
 * The curve of the shared model. The node that leads writes its curve; the others replace theirs by it, and train it again
 * with updates of their own that it lacks, so nothing that was learned is lost. With the curve comes what the deltas of all
 * nodes reported of notices and kept wins.
 */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { Log } from '../base/log.ts'
import { inSlices } from '../base/slices.ts'
import { isRefit } from '../learner.ts'
import type { Mode } from '../shared/arms.ts'
import { type Envelope, VersionVector } from './envelope.ts'
import type { ModelBus, SeenPart, SharedModelHead } from './model-bus.ts'
import type { ModelStore } from './model-store.ts'
import { compress, maxBytes } from './snapshots.ts'

const decompress = promisify(gunzip)

/** Deltas of a node that it keeps because a shared curve may lack them: 200 s. */
const maxRecent = 500
/** Rounds for which a curve that lacks updates of others is not received: a node that joins may have a later model. */
const maxSkips = 3
/** Milliseconds between two curves, of which each is some 3 MiB: every second round. */
const shareEvery = 3500

export interface SharingDeps {
  models: ModelStore
  bus: ModelBus
  /** Milliseconds of a monotonic clock. */
  now: () => number
  log: Log
}

export class SharedCurve {
  readonly counts = { shared: 0, received: 0, refused: 0 }
  private readonly mode: Mode
  private readonly deps: SharingDeps
  /** Deltas of this node that were sent. */
  private recent: Envelope[] = []
  private isChanged = false
  /** Number of the curve that was shared or received last. */
  number = 0
  /** The curve that was seen last; its head is null if it is the one of `number`. */
  private seen: SeenPart = { number: 0, head: null }
  /** Of the curve that was seen last. */
  private version = 0
  private refused = 0
  private skipped = 0
  private sharedAt = Number.NEGATIVE_INFINITY

  constructor(mode: Mode, deps: SharingDeps) {
    this.mode = mode
    this.deps = deps
  }

  /** A delta of another node was merged, or the shared model was taken. */
  changed(): void {
    this.isChanged = true
  }

  /** A delta of this node was sent. */
  sent(envelope: Envelope): void {
    this.isChanged = true
    // A refit is shared at once, because it may change the curve more than all updates since the last one.
    if (isRefit(envelope.delta)) this.sharedAt = Number.NEGATIVE_INFINITY
    this.recent.push(envelope)
    if (this.recent.length > maxRecent) this.recent.shift()
  }

  /** Of a look at the shared model. Returns whether it has another curve than at the last look. */
  look(seen: SeenPart): boolean {
    const isNew = seen.number !== this.seen.number
    this.seen = seen
    this.version = Math.max(this.version, seen.head?.version ?? 0)
    return isNew
  }

  /** Of the node that leads. */
  get hasUnsharedRefit(): boolean {
    return this.state.outbox.some(({ delta }) => isRefit(delta))
  }

  /**
   * For the node that leads, after it has merged all deltas. `send` sends the deltas that were collected meanwhile; false: it
   * could not.
   */
  async lead(send: () => Promise<boolean>): Promise<void> {
    if (this.isChanged && this.deps.now() - this.sharedAt >= shareEvery) await this.share(send)
  }

  /** For all other nodes. Returns whether this node has received a curve. */
  async follow(): Promise<boolean> {
    const { number, head } = this.seen
    if (head === null || number === this.refused || this.skips(head)) return this.number > 0
    if (await this.receive(head, number)) this.number = number
    return this.number > 0
  }

  private skips({ seen }: SharedModelHead): boolean {
    const others = this.state.seen.rows().filter(([node]) => node !== this.deps.models.node)
    const isOlder = new VersionVector(seen).lacks(others)
    this.skipped = isOlder && this.skipped < maxSkips ? this.skipped + 1 : 0
    return this.skipped > 0
  }

  private get state() {
    return this.deps.models.stateOf(this.mode)
  }

  private name(version: number): void {
    this.version = version
    Object.assign(this.state, { version, isShared: true })
  }

  private async share(send: () => Promise<boolean>): Promise<void> {
    const { mode, state } = this
    const { bus, models, now } = this.deps
    const heads: SharedModelHead[] = []
    const version = Math.max(this.version, state.version) + 1
    const sharing = state.learner.inner.sharing(() => {
      models.takeDelta(mode)
      this.recent = []
      heads.push({ epoch: state.epoch, seen: state.seen.rows(), version })
    })
    this.isChanged = false
    this.sharedAt = now()
    const curve = await inSlices(sharing)
    const bytes = await compress(curve)
    // What is in the curve is in the stream, for the next node that leads.
    if (!(await send())) {
      this.isChanged = true
      return
    }
    const [head] = heads
    if (head?.epoch !== state.epoch) return
    const number = await bus.writeModel(mode, 'curve', models.node, head, bytes)
    if (number === 0) return
    this.number = number
    this.name(version)
    this.counts.shared++
  }

  /** false: it is tried again in the next round. */
  private async receive(head: SharedModelHead, number: number): Promise<boolean> {
    const { mode, state } = this
    const bytes = await this.deps.bus.readModel(mode, 'curve')
    if (bytes === null) return false
    try {
      const { buffer, byteOffset, length } = await decompress(bytes, { maxOutputLength: maxBytes })
      // `slice` of a Buffer would be a view.
      const curve = new Uint8Array(buffer, byteOffset, length)
      let missing: Envelope[] = []
      const { inner } = state.learner
      const adopting = inner.adopting(curve, () => {
        // A roll-back may have come between two slices: it replaces the learner, perhaps by one of the curve's epoch.
        const isReplaced = head.epoch !== state.epoch || inner !== state.learner.inner
        if (isReplaced || state.learner.isFrozen) return null
        missing = this.missing(head)
        return missing.map(({ delta }) => delta)
      })
      if (!(await inSlices(adopting))) return false
      const seen = new VersionVector(head.seen)
      for (const { node, sequence } of missing) seen.addSequence(node, sequence)
      Object.assign(state, { seen, isWhole: false })
      this.counts.received++
      this.name(head.version ?? 0)
      return true
    } catch (error) {
      this.counts.refused++
      this.refused = number
      this.deps.log.error({ mode, err: (error as Error).message }, 'a shared curve was refused')
      return false
    }
  }

  /** Deltas of this node, sent or not, that the curve lacks. */
  private missing(head: SharedModelHead): Envelope[] {
    const shared = new VersionVector(head.seen)
    const isMissing = ({ node, sequence, epoch }: Envelope) =>
      epoch === head.epoch && !shared.has(node, sequence)
    this.recent = this.recent.filter(isMissing)
    // Updates of this node since its last delta are in the outbox now.
    const unsent = this.deps.models.takeDelta(this.mode).filter(isMissing)
    const sent = new Set(this.recent)
    return [...this.recent, ...unsent.filter((envelope) => !sent.has(envelope))]
  }
}
