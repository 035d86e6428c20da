/**
 * The model that nodes share. One node leads, by a lease: it alone merges the deltas of all nodes. It writes two parts: its whole
 * model, with the version vector of the deltas in it, and more often its curve (shared-curve.ts). The next node that leads takes
 * the whole model, and merges the deltas after it. A node that joins starts with it. All others take the curve.
 */

import { isOfOtherVersion } from '../learner/snapshot.ts'
import type { Mode } from '../shared/arms.ts'
import type { Envelope } from './envelope.ts'
import type { SharedModelHead } from './model-bus.ts'
import { SharedCurve, type SharingDeps } from './shared-curve.ts'

/** Milliseconds, or deltas, after which the holder of the lease shares its model again. The stream keeps 6000 deltas. */
const shareEvery = 30_000
const shareAfter = 750
/** Rounds to wait for a missing delta, or, if no model is shared, for a node that has the rows of all nodes. */
const maxRounds = 5
/** Rounds for which a node that has learned nothing leaves the lease to others, if no model is shared: Redis may have lost it. */
const freshRounds = 3

export class SharedModel {
  readonly counts = { shared: 0, taken: 0, lost: 0, refused: 0 }
  readonly curve: SharedCurve
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
    this.curve = new SharedCurve(mode, deps)
  }

  /** A delta of this node was sent. */
  sent(envelope: Envelope): void {
    this.deltas++
    this.curve.sent(envelope)
  }

  /** A delta of another node was merged. */
  merged(): void {
    this.deltas++
    this.curve.changed()
  }

  /** A node without a model of its own begins with the shared one. */
  async begin(): Promise<void> {
    if (this.begun || !this.deps.models.isFresh(this.mode)) return
    await this.receive()
    this.begun = true
  }

  /** Replaces the model of this node by the shared one. */
  private async receive(): Promise<boolean> {
    const { mode, counts } = this
    const { bus, models, log } = this.deps
    const bytes = await bus.readModel(mode, 'whole')
    if (bytes === null) return false
    try {
      if (!models.receive(mode, bytes)) return false
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
    return this.deps.models.stateOf(this.mode)
  }

  private isBehind(): boolean {
    const { head, state } = this
    return head !== null && head.epoch === state.epoch && state.seen.lacks(head.seen)
  }

  /** Whether this node has what the next shared model needs: all rows, or the last shared model with them. */
  private get hasModel(): boolean {
    const { models } = this.deps
    return this.head !== null || (this.state.isWhole && !models.isFresh(this.mode))
  }

  /** Whether this node may merge what it reads of the stream at any time: it leads, and no shared model has to come first. */
  get merges(): boolean {
    return this.leads && this.state.isWhole && !this.isBehind()
  }

  /** Whether this node may lead. If no model is shared, a node that has one is preferred for some rounds. */
  private get isCandidate(): boolean {
    if (this.deps.serves) return false
    if (this.hasLease || this.hasModel) return true
    return ++this.unled > (this.state.isWhole ? freshRounds : maxRounds)
  }

  /** Takes, or keeps, the lease if it is free. Returns whether this node leads. */
  async look(): Promise<boolean> {
    const { leads, whole: model, curve, alone = false } = await this.lookAs(this.isCandidate)
    const { number, head } = model
    if (head !== null) Object.assign(this, { number, head, unled: 0 })
    // The store has lost the model, so it is written again.
    else if (number === 0) Object.assign(this, { number, head })
    this.curve.look(curve)
    // A node of an earlier epoch rolls back first.
    this.hasLease = leads
    this.leads = leads && (this.head === null || this.head.epoch <= this.state.epoch)
    this.isAlone = alone
    return this.leads
  }

  /**
   * Between rounds: renews the lease, or takes it if it is free. Returns whether a round is due: the holder changed, the node
   * that leads has a refit to share, or the others have a new curve to receive.
   */
  async keep(): Promise<boolean> {
    const { serves } = this.deps
    const isCandidate = this.hasLease || this.hasModel
    const { leads, curve } = await this.lookAs(isCandidate && !serves)
    const isNewCurve = this.curve.look(curve)
    if (leads !== this.hasLease) return true
    return this.leads ? this.curve.hasUnsharedRefit : isNewCurve
  }

  /** Another node may lead. */
  async leave(): Promise<void> {
    await this.lookAs(false)
  }

  private lookAs(candidate: boolean) {
    const { bus, models } = this.deps
    const known = { whole: this.number, curve: this.curve.number }
    return bus.look(this.mode, models.node, candidate, known)
  }

  /**
   * For the node that leads. `merge` merges the deltas of the stream, `send` sends those of this node; false: it could not.
   * Returns whether this node has all of them.
   */
  async lead(merge: () => Promise<void>, send: () => Promise<boolean>): Promise<boolean> {
    const { state, head } = this
    const isPart = head !== null && head.epoch === state.epoch && !state.isWhole
    if (!this.isAlone && (isPart || this.isBehind()) && (await this.receive())) this.curve.changed()
    await merge()
    if (state.seen.missing > 0 && !this.givesUpMissing()) return false
    this.waited = 0
    if (!this.isAlone) {
      // No node has rows that are neither in the shared model nor in the stream.
      state.isWhole = true
      if (this.isDue()) await this.share(send)
    }
    await this.curve.lead(send)
    return true
  }

  /** For the other nodes. Returns whether this node has a shared curve or the shared model. */
  async follow(): Promise<boolean> {
    if (await this.curve.follow()) return true
    if (this.isBehind()) await this.receive()
    return this.counts.taken > 0 || (this.head !== null && !this.isBehind())
  }

  private isDue(): boolean {
    if (this.head === null || this.head.epoch < this.state.epoch) return true
    if (this.deltas === 0) return false
    return this.deltas >= shareAfter || this.deps.now() - this.sharedAt >= shareEvery
  }

  private async share(send: () => Promise<boolean>): Promise<void> {
    const { mode, state } = this
    const { models, bus, now } = this.deps
    const { epoch } = state
    const seen = state.seen.rows()
    const [deltas, began] = [this.deltas, now()]
    const bytes = await models.packed(mode)
    // What is in the model is in the stream.
    if (!(await send())) return
    this.deltas -= deltas
    this.sharedAt = began
    // The model may contain more deltas than its head says, which is harmless; another epoch is not.
    if (state.epoch !== epoch) return
    const number = await bus.writeModel(mode, 'whole', models.node, { epoch, seen }, bytes)
    if (number === 0) return
    Object.assign(this, { number, head: { epoch, seen } })
    this.counts.shared++
  }

  /** Missing deltas are waited for some rounds: a node may have ended before it sent them. */
  private givesUpMissing(): boolean {
    if (++this.waited < maxRounds) return false
    const { seen } = this.state
    this.counts.lost += seen.missing
    seen.closeGaps()
    return true
  }
}
