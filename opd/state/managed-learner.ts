/**
 * The learner that the engine uses. It stays the same object when operators roll the model back or freeze it. A supplier
 * that was reset gets a new name in the model. Exposures from before a roll-back are not used for training after it.
 */
import type {
  BidFacts,
  BidFilter,
  Decision,
  NodeLearner,
  PastOutcome,
  Policy,
  RecentBid,
} from '../learner-types.ts'
import type { PricingLearner } from '../ports.ts'

/** Prefix of features of every epoch but the first: this byte, and four bytes of the epoch. No version of a learner uses the byte. */
const epochMarker = 0xee
const markBytes = 5
const none = new Uint8Array(0)
/** Wins that are queued while the model is frozen. Further wins are not used for training, and are counted. */
const maxQueued = 50_000
/** Milliseconds between two calls of `advance` while queued wins are applied. */
const advanceEvery = 250

export class ManagedLearner implements PricingLearner {
  /** The model, which is not trained while it is frozen. */
  inner: NodeLearner
  isFrozen = false
  /** Wins of an earlier epoch, and wins that did not fit in the queue. */
  readonly counts = { stale: 0, overflowed: 0 }
  private readonly isSealed: boolean
  private mark: number
  private aliases: ReadonlyMap<string, string> = new Map()
  private queued: { now: number; train: () => void }[] = []

  /** `isSealed`: the model never learns here, but exposures are made, for the node that learns from them later. */
  constructor(inner: NodeLearner, epoch: number, isSealed = false) {
    this.inner = inner
    this.isSealed = isSealed
    this.mark = markOf(epoch)
  }

  /** After a rollback. */
  replace(inner: NodeLearner, epoch: number): void {
    this.use(inner)
    this.mark = markOf(epoch)
    this.queued = []
  }

  /** The model of other nodes, in the same epoch, for a node that has none. Bids that it has priced meanwhile still train it. */
  adopt(inner: NodeLearner): void {
    inner.takePending(this.inner)
    this.use(inner)
  }

  private use(inner: NodeLearner): void {
    this.inner = inner
    inner.freeze(this.isFrozen)
  }

  freeze(is: boolean): void {
    this.isFrozen = is
    this.inner.freeze(is)
    if (is) return
    const { queued } = this
    this.queued = []
    // The clock advances between the wins, or the guards would see a time without win notices.
    let advancedAt = 0
    for (const { now, train } of queued) {
      if (now - advancedAt >= advanceEvery) {
        advancedAt = now
        this.inner.advance(now)
      }
      train()
    }
  }

  /** Everything the model knows of a supplier is stored by its name, so a new name resets it. */
  rename(resets: Readonly<Record<string, number>>): void {
    this.aliases = new Map(
      Object.entries(resets).map(([name, resetAt]) => [
        name,
        `${name}\u0000${resetAt.toString(36)}`,
      ]),
    )
  }

  /** The facts with the name that the model knows the supplier by. */
  private named<F extends { supplier: string }>(facts: F): F {
    const supplier = this.aliases.size === 0 ? undefined : this.aliases.get(facts.supplier)
    return supplier === undefined ? facts : { ...facts, supplier }
  }

  decide(
    facts: BidFacts,
    policy: Policy,
    key: string,
    now: number,
    random: () => number,
  ): Decision {
    return this.inner.decide(this.named(facts), policy, key, now, random)
  }

  /**
   * The win probability by the present model, 0 to 1.
   *
   * @param facts with the configured identifier of the supplier
   * @param price CPM in the base currency
   */
  winChance(facts: BidFacts, price: number): number {
    return this.inner.chance(this.named(facts), price)
  }

  /**
   * The newest settled bids of this node.
   *
   * @param filter with the configured identifier of the supplier
   * @param most bids, at most
   */
  recentBids(filter: BidFilter, most: number): RecentBid[] {
    return this.inner.recentBids(this.named(filter), most)
  }

  expose(decision: Decision, sentPrice: number, now: number): Uint8Array {
    if (this.isFrozen && !this.isSealed) return none
    const features = this.inner.expose(decision, sentPrice, now)
    if (this.mark === 0 || features.length === 0) return features
    const bytes = new Uint8Array(markBytes + features.length)
    bytes[0] = epochMarker
    new DataView(bytes.buffer).setUint32(1, this.mark)
    bytes.set(features, markBytes)
    return bytes
  }

  win(features: Uint8Array, clearedPrice: number, now: number, minToWin?: number): void {
    this.train(features, now, (features) => this.inner.win(features, clearedPrice, now, minToWin))
  }

  lose(features: Uint8Array, minToWin: number | null, now: number): void {
    this.train(features, now, (features) => this.inner.lose(features, minToWin, now))
  }

  withdraw(features: Uint8Array, now: number): void {
    this.train(features, now, (features) => this.inner.withdraw(features, now))
  }

  settlePast(features: Uint8Array, outcome: PastOutcome, now: number): void {
    this.train(features, now, (features) => this.inner.settlePast(features, outcome, now))
  }

  winUnapplied(features: Uint8Array, cleared: number, now: number, minToWin?: number): void {
    this.train(features, now, (features) =>
      this.inner.winUnapplied(features, cleared, now, minToWin),
    )
  }

  /** Calls `update` with the features as the model made them, now or when the model is no longer frozen. */
  private train(features: Uint8Array, now: number, update: (unmarked: Uint8Array) => void): void {
    const isMarked = features[0] === epochMarker && features.length > markBytes
    const mark = isMarked ? new DataView(features.buffer, features.byteOffset).getUint32(1) : 0
    if (mark !== this.mark) {
      this.counts.stale++
      return
    }
    const unmarked = isMarked ? features.subarray(markBytes) : features
    if (!this.isFrozen) update(unmarked)
    else if (this.queued.length < maxQueued)
      this.queued.push({ now, train: () => update(unmarked) })
    else this.counts.overflowed++
  }

  advance(now: number): void {
    if (!this.isFrozen) this.inner.advance(now)
  }
}

/** Only the first epoch has the mark 0. */
const markOf = (epoch: number) => (epoch === 0 ? 0 : epoch % 0xffffffff || 1)
