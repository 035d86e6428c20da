/** The types of the learner's interface. */
import type { Guard, Mode } from '../pricing/arms.ts'
import type { BidFeatures } from '../pricing/types.ts'

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
  /** The multipliers at work: out = argmax (theta in + lambda - p) W(p). Absent where none were. */
  theta?: number
  /** CPM. */
  lambda?: number
  /** What holds prices up: `none`, `start` (shallow first), or the guard that acts. Absent where no guard was asked. */
  guard?: Guard
  /** Explored only: the density of this factor, given that the bid was explored; what replay weighs by. */
  density?: number
}
/** Of one integration; may change between calls. */
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
   * false: exposures that wait in the snapshot are left out (after a crash, a rollback, or of another node), and wins of what
   * was sent before this life and not settled in the snapshot train nothing, or a crash would look like wins without bids.
   */
  carries?: boolean
  /** true: what was merged is trained with by `advance` and `expose`, some at a time, and not before the next decision. */
  slices?: boolean
  /** false: the curve is that of other nodes; what is learned here is only reported by `delta`. */
  trains?: boolean
}
export interface Learner {
  decide(facts: BidFacts, policy: Policy, key: string, now: number, random: () => number): Decision
  /** The bid left at this price (shadow, hold and decimals may differ from outBa); returns what the context carries. */
  expose(decision: Decision, sentPrice: number, now: number): Uint8Array
  /** At most once per decision: the caller de-duplicates. `minToWin`: the lowest price that would have won. */
  win(features: Uint8Array, clearedPrice: number, now: number, minToWin?: number): void
  /** A loss notice: settles the exposure at once. `minToWin`: the lowest price that would have won. */
  lose(features: Uint8Array, minToWin: number | null, now: number): void
  /** This exposure trains nothing (a win that may not train came for it). */
  withdraw(features: Uint8Array, now: number): void
  /** Settles bids whose window has passed; idempotent. */
  advance(now: number): void
  /** What this node learned since the last call. */
  delta(): Uint8Array
  /** What others learned; commutative. */
  merge(delta: Uint8Array): void
  /** Settled rows to fit again, when it is time; null: not now. */
  refitJob(now: number): Uint8Array | null
  /** What `refit` made of a job. */
  applyRefit(result: Uint8Array): void
  /** The whole state, for a restart: a learner restored from it decides as this one would. */
  snapshot(): Uint8Array
  /** W(price | facts) by the present model. Replay asks for the prices that were logged. */
  chance(facts: BidFacts, price: number): number
}

/** A learner whose model other nodes share, and which operators freeze and roll back. */
export interface NodeLearner extends Learner {
  /**
   * The same as pieces, made in slices of a millisecond or two between which the learner may go on. `taken` is called in the
   * slice whose state it is.
   */
  snapshotting(taken?: () => void): Generator<undefined, Uint8Array[]>
  /** The curve alone, as pieces, made in slices. `taken` is called in the slice whose state it is. */
  sharing(taken: () => void): Generator<undefined, Uint8Array[]>
  /**
   * Replaces the curve by that of another node, in slices; of the rest it takes what other nodes reported. `missing` returns the
   * deltas of this node that the curve lacks, which train it again; null: the curve is not wanted any more. Throws if the
   * curve is damaged. Returns whether it was replaced. Rows to fit again are then of this node alone, and dropped.
   */
  adopting(
    curve: Uint8Array,
    missing: () => readonly Uint8Array[] | null,
  ): Generator<undefined, boolean>
  /**
   * Takes the curve and the rows to fit again of another node's `snapshot`, and what others reported. Exposures that wait, and
   * what decisions moved, are still those of this node. Throws, and changes nothing, if it is damaged.
   */
  resume(snapshot: Uint8Array): void
  /** While frozen, decisions move nothing: no multiplier, no guard. What is reported besides is for the caller to hold back. */
  freeze(is: boolean): void
}
