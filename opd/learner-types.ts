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
  /**
   * Chooses the price of a bid. A price that the model cannot be trained with (from 1e9 CPM, for example) is kept.
   *
   * @param facts what the model knows of the bid; its price and floor are CPM in the base currency
   * @param policy of the integration. `holdout`, `explore` and `minFactor` out of 0 to 1 count as absent.
   * @param key of the auction: whether a bid belongs to the holdout depends on nothing else
   * @param now milliseconds since the epoch
   * @param random uniform in [0, 1)
   */
  decide(facts: BidFacts, policy: Policy, key: string, now: number, random: () => number): Decision
  /**
   * The bid was sent: it waits for its notice. Returns the features for the context, which belong to the caller; empty: the bid
   * does not train the model.
   *
   * @param decision the object that `decide` returned, not a copy
   * @param sentPrice CPM in the base currency. It may differ from `outBa` (shadow, hold, decimals).
   * @param now milliseconds since the epoch
   */
  expose(decision: Decision, sentPrice: number, now: number): Uint8Array
  /**
   * A win. At most once per decision: the caller de-duplicates.
   *
   * @param features as `expose` returned them, perhaps on another node; those of another version of the program are ignored
   * @param clearedPrice CPM in the base currency, 0 or more
   * @param now milliseconds since the epoch
   * @param minToWin the lowest price that would have won, CPM in the base currency; undefined: not known
   */
  win(features: Uint8Array, clearedPrice: number, now: number, minToWin?: number): void
  /**
   * A loss notice: settles the exposure at once.
   *
   * @param features as in `win`
   * @param minToWin the lowest price that would have won, CPM in the base currency; null: not known
   * @param now milliseconds since the epoch
   */
  lose(features: Uint8Array, minToWin: number | null, now: number): void
  /**
   * Removes an exposure from training: a win came for it that must not train the model. At most once per decision.
   *
   * @param features as in `win`
   * @param now milliseconds since the epoch
   */
  withdraw(features: Uint8Array, now: number): void
  /**
   * Settles bids whose window has passed, and trains with received rows: a slice of both, so it is called some times a second.
   * Idempotent.
   *
   * @param now milliseconds since the epoch
   */
  advance(now: number): void
  /** The rows and sums of this node since the last call. */
  delta(): Uint8Array
  /**
   * Merges what another node learned. The order of deltas does not matter, but each may be merged once.
   *
   * @param delta as `delta` returned it there; kept, and not changed
   * @throws DeltaError and changes nothing if it is damaged
   */
  merge(delta: Uint8Array): void
  /**
   * A job for `refit`, which may run in another thread; null: no refit is due. The next one is due a minute later, at the soonest.
   *
   * @param now milliseconds since the epoch
   */
  refitJob(now: number): Uint8Array | null
  /**
   * Replaces the curve by a fit. A frozen learner ignores it.
   *
   * @param result as `refit` returned it, perhaps on another node; kept, and not changed
   * @throws DeltaError and changes nothing if it is damaged
   */
  applyRefit(result: Uint8Array): void
  /** The whole state, for a restart: a learner restored from it decides as this one would. */
  snapshot(): Uint8Array
  /**
   * W(price | facts) by the present model, 0 to 1. Replay asks for the prices that were logged.
   *
   * @param facts as in `decide`
   * @param price CPM in the base currency; one above `inBa` counts as `inBa`
   */
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
  /**
   * Trains with a bid that is pending on no node, such as one of a node without a network, and with its outcome.
   *
   * @param features as in `win`
   * @param outcome prices are CPM in the base currency
   * @param now when it was won or lost, milliseconds since the epoch
   */
  settlePast(features: Uint8Array, outcome: PastOutcome, now: number): void
  /**
   * A win of a bid that competed at its own price, because the exchange did not apply the lower one. In place of `win`.
   *
   * @param features as in `win`
   * @param cleared CPM in the base currency, 0 or more
   * @param now milliseconds since the epoch
   * @param minToWin as in `win`
   */
  winUnapplied(features: Uint8Array, cleared: number, now: number, minToWin?: number): void
  /**
   * The newest settled bids of this node, the newest first.
   *
   * @param filter a name that is absent does not limit them
   * @param most bids, at most
   */
  recentBids(filter: BidFilter, most: number): RecentBid[]
  /**
   * A snapshot in pieces, made in slices of a millisecond or two. The learner may be used between slices.
   *
   * @param taken called at the moment whose state the snapshot has
   */
  snapshotting(taken?: () => void): Generator<undefined, Uint8Array[]>
  /**
   * The curve alone, in pieces, made in slices.
   *
   * @param taken called at the moment whose state it has
   */
  sharing(taken: () => void): Generator<undefined, Uint8Array[]>
  /**
   * Replaces the curve by that of another node, in slices, and merges what other nodes reported. Returns whether the curve was
   * replaced. The settled rows, which are of this node alone, are then dropped.
   *
   * @param curve the pieces of `sharing`, joined
   * @param missing called at the moment of the replacement: the deltas of this node that the curve lacks, which train it again;
   * null: the curve is no longer wanted
   * @throws and changes nothing if the curve is damaged
   */
  adopting(
    curve: Uint8Array,
    missing: () => readonly Uint8Array[] | null,
  ): Generator<undefined, boolean>
  /**
   * Takes the curve and the settled rows of another node's snapshot, and merges what other nodes reported. Pending exposures and
   * multipliers remain those of this node.
   *
   * @param snapshot whole
   * @throws and changes nothing if the snapshot is damaged
   */
  resume(snapshot: Uint8Array): void
  /**
   * Takes the pending exposures of the learner that it replaces in this process, so that their wins train it, too.
   *
   * @param replaced not used any more
   */
  takePending(replaced: NodeLearner): void
  /**
   * While frozen, decisions change no multiplier and no guard. The caller must hold back notices.
   *
   * @param is false: it learns again
   */
  freeze(is: boolean): void
}
