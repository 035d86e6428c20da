/** The types of the learner's interface. */
import type { Guard, Mode } from './shared/arms.ts'
import type { BidFeatures } from './shared/reasons.ts'

export interface BidFacts extends BidFeatures {
  supplier: string
  mode: Mode
  /** CPM, same currency as `floor`. */
  inBa: number
  floor: number
}
export interface Decision {
  outBa: number
  factor: number
  arm: 'holdout' | 'explored' | 'treated'
  propensity: number
  winIn: number
  winOut: number
  /** The multipliers: out = argmax (theta in + lambda - p) W(p). Absent if the price is not above the floor. */
  theta?: number
  /** CPM. */
  lambda?: number
  /** `none`, `start` (prices are lowered a little at first), or the guard that acts. Absent as `theta`. */
  guard?: Guard
  /** Explored only: the density of this factor among explored bids, for the weights of replay. */
  density?: number
}
/** The policy of one integration. It may change between calls. */
export interface Policy {
  minWinRate?: number
  /** Default: minWinRate. */
  minSpend?: number
  targetMargin?: number
  explore?: number
  minFactor?: number
  holdout?: number
}
export interface LearnerOptions {
  /** Milliseconds. */
  attributionWindow?: number
  /**
   * false: the pending exposures of the snapshot are dropped, because of a crash, a roll-back, or another node. The wins of
   * bids that were pending in it, or were sent after it and before this start, do not train the model: wins without their
   * exposures would make prices look too good.
   */
  carries?: boolean
  /** true: merged rows are trained in slices by `advance` and `expose`, and not all before the next decision. */
  slices?: boolean
  /** false: other nodes train the curve. This node only reports its rows, in `delta`. */
  trains?: boolean
}
/** Which bids: `publisher` and `domain` limit them further. */
export type BidFilter = Pick<BidFacts, 'supplier' | 'publisher' | 'domain'>

/** A bid that was sent and has settled, so that the model can be asked about other prices of it. CPM in the base currency. */
export interface RecentBid {
  inBa: number
  /** Within 7 %; 0: there was none. */
  floor: number
  /** W at these prices, by the present model. */
  chances(prices: readonly number[]): number[]
}

export interface Learner {
  decide(facts: BidFacts, policy: Policy, key: string, now: number, random: () => number): Decision
  /** The bid was sent at this price, which may differ from `outBa` (shadow, hold, decimals). Returns the features for the context. */
  expose(decision: Decision, sentPrice: number, now: number): Uint8Array
  /** At most once per decision: the caller de-duplicates. `minToWin`: the lowest price that would have won. */
  win(features: Uint8Array, clearedPrice: number, now: number, minToWin?: number): void
  /** A loss notice: settles the exposure at once. `minToWin`: the lowest price that would have won. */
  lose(features: Uint8Array, minToWin: number | null, now: number): void
  /** Removes an exposure from training: a win came for it that must not train the model. */
  withdraw(features: Uint8Array, now: number): void
  /** Settles bids whose window has passed; idempotent. */
  advance(now: number): void
  /** The rows and sums of this node since the last call. */
  delta(): Uint8Array
  /** Merges a delta of another node. The order of deltas does not matter. */
  merge(delta: Uint8Array): void
  /** A job for `refit`, if a refit is due, else null. */
  refitJob(now: number): Uint8Array | null
  /** Applies a result of `refit`. */
  applyRefit(result: Uint8Array): void
  /** The whole state, for a restart: a learner restored from it decides as this one would. */
  snapshot(): Uint8Array
  /** W(price | facts) by the present model. Replay asks for the prices that were logged. */
  chance(facts: BidFacts, price: number): number
}

export interface PastOutcome {
  /** null: the bid lost. */
  cleared: number | null
  minToWin?: number | undefined
  /** false: it competed at its own price. */
  applied: boolean
}

/** A learner whose model other nodes share, and which operators freeze and roll back. */
export interface NodeLearner extends Learner {
  /** Trains with a bid that is pending on no node, such as one of a node without a network, and with its outcome. */
  settlePast(features: Uint8Array, outcome: PastOutcome, now: number): void
  /** A win of a bid that competed at its own price, because the exchange did not apply the lower one. */
  winUnapplied(features: Uint8Array, cleared: number, now: number, minToWin?: number): void
  /** The newest settled bids of this node, at most `most` of them. */
  recentBids(filter: BidFilter, most: number): RecentBid[]
  /**
   * A snapshot in pieces, made in slices of a millisecond or two. The learner may be used between slices. `taken` is called at
   * the moment whose state the snapshot has.
   */
  snapshotting(taken?: () => void): Generator<undefined, Uint8Array[]>
  /** The curve alone, in pieces, made in slices. `taken` is called at the moment whose state it has. */
  sharing(taken: () => void): Generator<undefined, Uint8Array[]>
  /**
   * Replaces the curve by that of another node, in slices, and merges what other nodes reported. `missing` returns the deltas of
   * this node that the curve lacks, which train it again; null: the curve is no longer wanted. Throws if the curve is damaged.
   * Returns whether the curve was replaced. The settled rows, which are of this node alone, are then dropped.
   */
  adopting(
    curve: Uint8Array,
    missing: () => readonly Uint8Array[] | null,
  ): Generator<undefined, boolean>
  /**
   * Takes the curve and the settled rows of another node's snapshot, and merges what other nodes reported. Pending exposures
   * and multipliers remain those of this node. Throws, and changes nothing, if the snapshot is damaged.
   */
  resume(snapshot: Uint8Array): void
  /** While frozen, decisions change no multiplier and no guard. The caller must hold back notices. */
  freeze(is: boolean): void
}
