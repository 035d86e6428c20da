/**
 * The model that nodes share, beside the stream of deltas: one node, by a lease, writes its own with the version vector
 * of the deltas in it. A node that joins, was away, or missed a delta takes it.
 */
import type { Mode } from '../pricing/arms.ts'
import type { Log } from '../shared/log.ts'
import type { VersionVectorRows } from './envelope.ts'
import type { ModelStore } from './model-store.ts'

export interface SharedModelHead {
  epoch: number
  seen: VersionVectorRows
  /** Of a curve: the version of the model on all nodes. */
  version?: number
}

/** Implemented by Redis, PostgreSQL, and the memory of a node with workers. */
export interface SharedModelBus {
  /**
   * Takes or renews the lease if `candidate`, and reads the head of the shared model if its number is not `known`.
   * `number` 0: there is none.
   */
  look(
    mode: string,
    node: string,
    candidate: boolean,
    known: number,
  ): Promise<{ leads: boolean; number: number; head: SharedModelHead | null }>
  /** Replaces the shared model; its number, or 0 if the lease was lost. */
  writeModel(mode: string, node: string, head: SharedModelHead, bytes: Uint8Array): Promise<number>
  readModel(mode: string): Promise<Uint8Array | null>
}

/** Milliseconds, or deltas, after which the holder of the lease shares its model again. The stream keeps 600 deltas. */
const shareEvery = 30_000
const shareAfter = 150
/** Rounds that a missing delta is waited for. */
const patience = 5

export class SharedModel {
  readonly counts = { shared: 0, taken: 0, lost: 0, refused: 0 }
  private readonly mode: Mode
  private readonly models: ModelStore
  private readonly bus: SharedModelBus
  private readonly now: () => number
  private readonly log: Log
  /** Whether this node has the lease, as of the last round. */
  leads = false
  private begun = false
  /** Number and head of the shared model, as last seen. */
  private number = 0
  private head: SharedModelHead | null = null
  private deltas = 0
  private sharedAt = Number.NEGATIVE_INFINITY
  private waited = 0

  constructor(
    mode: Mode,
    {
      models,
      bus,
      now,
      log,
    }: { models: ModelStore; bus: SharedModelBus; now: () => number; log: Log },
  ) {
    this.mode = mode
    this.models = models
    this.bus = bus
    this.now = now
    this.log = log
  }

  /** A delta was sent or merged. */
  changed(): void {
    this.deltas++
  }

  /** A node without a model of its own begins with the shared one. */
  async begin(): Promise<void> {
    const { place, version } = this.state
    if (this.begun || place !== '0' || version !== 0) return
    await this.take()
    this.begun = true
  }

  private async take(): Promise<boolean> {
    const { bus, mode, models, counts } = this
    const bytes = await bus.readModel(mode)
    if (bytes === null) return false
    try {
      if (!models.adopt(mode, bytes)) return false
    } catch (error) {
      counts.refused++
      this.log.error({ mode, err: (error as Error).message }, 'the shared model was refused')
      // Until there is another one.
      this.head = null
      return false
    }
    counts.taken++
    return true
  }

  private get state() {
    return this.models.of(this.mode)
  }

  private isBehind(): boolean {
    const { head, state } = this
    return head !== null && head.epoch === state.epoch && state.seen.lacks(head.seen)
  }

  /**
   * After the deltas of the stream were merged. `receive` merges those that came meanwhile. Returns whether this node
   * has all that the others have.
   */
  async follow(receive: () => Promise<void>): Promise<boolean> {
    const { models, mode, bus } = this
    const complete = this.state.seen.missing === 0
    const { leads, number, head } = await bus.look(mode, models.node, complete, this.number)
    this.leads = leads
    if (head !== null) Object.assign(this, { number, head })
    // A store that lost it gets it again.
    else if (number === 0) this.head = null
    if (this.isBehind()) await receive()
    if (this.isBehind() && (await this.take())) await receive()
    if (this.state.seen.missing > 0) return this.wait()
    this.waited = 0
    if (leads && this.isDue()) await this.share()
    return !this.isBehind()
  }

  private isDue(): boolean {
    if (this.head === null || this.head.epoch < this.state.epoch) return true
    if (this.deltas === 0) return false
    return this.deltas >= shareAfter || this.now() - this.sharedAt >= shareEvery
  }

  private async share(): Promise<void> {
    const { models, mode, bus, state } = this
    const { epoch } = state
    const seen = state.seen.rows()
    this.deltas = 0
    this.sharedAt = this.now()
    const bytes = await models.packed(mode)
    // A later head would claim less than the model has: harmless. Another epoch would not be.
    if (state.epoch !== epoch) return
    const number = await bus.writeModel(mode, models.node, { epoch, seen }, bytes)
    if (number === 0) return
    Object.assign(this, { number, head: { epoch, seen } })
    this.counts.shared++
  }

  /** Nobody else may have what is missing: a node that ended before it sent a delta. */
  private wait(): boolean {
    if (++this.waited < patience) return false
    const { seen } = this.state
    this.counts.lost += seen.missing
    seen.closeGaps()
    this.waited = 0
    return true
  }
}
