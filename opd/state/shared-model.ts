/**
 * The model that nodes share. One node leads, by a lease: it alone merges the deltas of all nodes, and writes its model with the
 * version vector of the deltas in it. The next node that leads takes this model, and merges the deltas after it. A node that joins
 * starts with it.
 */

import type { Log } from '../base/log.ts'
import { isOfOtherVersion } from '../learner/snapshot.ts'
import type { Mode } from '../shared/arms.ts'
import type { VersionVectorRows } from './envelope.ts'
import type { ModelStore } from './model-store.ts'

export interface SharedModelHead {
  epoch: number
  seen: VersionVectorRows
  /** Of a curve: the version of the model on all nodes. */
  version?: number
}

/**
 * What nodes exchange: a stream of deltas, which the node that leads reads, and models, by their mode or name. Implemented by
 * Redis, and by the memory of a node with workers. A failure is retried in the next round.
 */
export interface ModelBus {
  /** Appends one delta of this node's model. */
  publish(mode: string, delta: Uint8Array): Promise<void>
  /** Deltas after the position `from` (`0`: from the beginning), each with its position. `last`: next `from`. */
  fetch(
    mode: string,
    from: string,
  ): Promise<{ deltas: { place: string; bytes: Uint8Array }[]; last: string }>
  /**
   * Takes or renews the lease if `candidate`, otherwise gives it up, and reads the head of the shared model if its number is not `known`.
   * `number` 0: there is none. `alone`: the store of the other nodes is away, so that this node leads its own processes.
   */
  look(
    mode: string,
    node: string,
    candidate: boolean,
    known: number,
  ): Promise<{ leads: boolean; number: number; head: SharedModelHead | null; alone?: boolean }>
  /** Replaces the shared model; its number, or 0 if the lease was lost. */
  writeModel(mode: string, node: string, head: SharedModelHead, bytes: Uint8Array): Promise<number>
  readModel(mode: string): Promise<Uint8Array | null>
}

/**
 * Milliseconds. A lease that is not renewed for so long is free. The node that leads renews it, and another one takes it,
 * every `keepEvery`: after a crash the others have the next curve within 5 s.
 */
export const leaseLife = 3000
export const keepEvery = 500

/** Milliseconds, or deltas, after which the holder of the lease shares its model again. The stream keeps 1200 deltas. */
const shareEvery = 30_000
const shareAfter = 150
/** Rounds to wait for a missing delta, or, if no model is shared, for a node that has the rows of all nodes. */
const maxRounds = 5

export interface SharingDeps {
  models: ModelStore
  bus: ModelBus
  /** Milliseconds of a monotonic clock. */
  now: () => number
  log: Log
}

export class SharedModel {
  readonly counts = { shared: 0, taken: 0, lost: 0, refused: 0 }
  private readonly mode: Mode
  private readonly deps: SharingDeps & { serves: boolean }
  /** Whether this node has the lease and leads, as of the last round. */
  leads = false
  private hasLease = false
  private isAlone = false
  private begun = false
  /** Number and head of the shared model, as last seen. */
  private number = 0
  private head: SharedModelHead | null = null
  private deltas = 0
  private sharedAt = Number.NEGATIVE_INFINITY
  private waited = 0
  private unled = 0

  /** `serves`: this node never leads. */
  constructor(mode: Mode, deps: SharingDeps & { serves: boolean }) {
    this.mode = mode
    this.deps = deps
  }

  /** A delta was sent or merged. */
  changed(): void {
    this.deltas++
  }

  /** A node without a model of its own begins with the shared one. */
  async begin(): Promise<void> {
    if (this.begun || !this.deps.models.isFresh(this.mode)) return
    await this.takeModel()
    this.begun = true
  }

  private async takeModel(): Promise<boolean> {
    const { mode, counts } = this
    const { bus, models, log } = this.deps
    const bytes = await bus.readModel(mode)
    if (bytes === null) return false
    try {
      if (!models.adopt(mode, bytes)) return false
    } catch (error) {
      counts.refused++
      // As during an upgrade.
      if (isOfOtherVersion(error))
        log.info({ mode }, 'the shared model is of another version, this node has its own')
      else log.error({ mode, err: (error as Error).message }, 'the shared model was refused')
      // Until there is another one.
      this.head = null
      return false
    }
    counts.taken++
    return true
  }

  private get state() {
    return this.deps.models.of(this.mode)
  }

  private isBehind(): boolean {
    const { head, state } = this
    return head !== null && head.epoch === state.epoch && state.seen.lacks(head.seen)
  }

  /** Whether this node may lead. If no model is shared, a node that has the rows of all nodes is preferred for some rounds. */
  private get isCandidate(): boolean {
    if (this.deps.serves) return false
    if (this.state.isWhole || this.head !== null) return true
    return ++this.unled > maxRounds
  }

  /** Takes, or keeps, the lease if it is free. Returns whether this node leads. */
  async look(): Promise<boolean> {
    const seen = await this.lookAs(this.isCandidate)
    const { leads, number, head, alone = false } = seen
    if (head !== null) Object.assign(this, { number, head, unled: 0 })
    // The store has lost the model, so it is written again.
    else if (number === 0) Object.assign(this, { number, head })
    // A node of an earlier epoch rolls back first.
    this.hasLease = leads
    this.leads = leads && (this.head === null || this.head.epoch <= this.state.epoch)
    this.isAlone = alone
    return this.leads
  }

  /** Between rounds: renews the lease, or takes it if it is free. Returns whether a round is due, as the holder changed. */
  async keep(): Promise<boolean> {
    if (this.deps.serves || !(this.state.isWhole || this.head !== null)) return false
    const { leads } = await this.lookAs(true)
    return leads !== this.hasLease
  }

  /** Another node may lead. */
  async leave(): Promise<void> {
    await this.lookAs(false)
  }

  private lookAs(candidate: boolean) {
    const { bus, models } = this.deps
    return bus.look(this.mode, models.node, candidate, this.number)
  }

  /** `receive` merges the deltas of the stream. Returns whether this node has all of them. */
  async lead(receive: () => Promise<void>): Promise<boolean> {
    const { state, head } = this
    const isPart = head !== null && head.epoch === state.epoch && !state.isWhole
    if (!this.isAlone && (isPart || this.isBehind())) await this.takeModel()
    await receive()
    if (state.seen.missing > 0) return this.wait()
    this.waited = 0
    if (this.isAlone) return true
    // No node has rows that are neither in the shared model nor in the stream.
    state.isWhole = true
    if (this.isDue()) await this.share()
    return true
  }

  /** For the other nodes, if there is no curve. Returns whether this node has the shared model. */
  async follow(): Promise<boolean> {
    if (this.isBehind()) await this.takeModel()
    return this.counts.taken > 0 || (this.head !== null && !this.isBehind())
  }

  private isDue(): boolean {
    if (this.head === null || this.head.epoch < this.state.epoch) return true
    if (this.deltas === 0) return false
    return this.deltas >= shareAfter || this.deps.now() - this.sharedAt >= shareEvery
  }

  private async share(): Promise<void> {
    const { mode, state } = this
    const { models, bus, now } = this.deps
    const { epoch } = state
    const seen = state.seen.rows()
    this.deltas = 0
    this.sharedAt = now()
    const bytes = await models.packed(mode)
    // The model may contain more deltas than its head says, which is harmless; another epoch is not.
    if (state.epoch !== epoch) return
    const number = await bus.writeModel(mode, models.node, { epoch, seen }, bytes)
    if (number === 0) return
    Object.assign(this, { number, head: { epoch, seen } })
    this.counts.shared++
  }

  /** Waits for missing deltas some rounds: a node may have ended before it sent them. */
  private wait(): boolean {
    if (++this.waited < maxRounds) return false
    const { seen } = this.state
    this.counts.lost += seen.missing
    seen.closeGaps()
    this.waited = 0
    return true
  }
}
