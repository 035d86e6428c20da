/** What the optimised bids keep of the holdout's wins, and what they gain, with 95 % intervals. */
import type { ArmSums, ModeStats } from '../../opd/engine/stats.ts'

export interface Interval {
  at: number
  lower: number
  upper: number
}
export interface Comparison {
  holdout: ArmSums
  optimised: ArmSums
  /** Ratio of win rates; null before both have won. */
  kept: Interval | null
  /** Difference of margin per bid, CPM in the base currency. */
  uplift: Interval | null
}

const z95 = 1.959964

function added(a: ArmSums, b: ArmSums): ArmSums {
  return {
    bids: a.bids + b.bids,
    wins: a.wins + b.wins,
    in: a.in + b.in,
    cleared: a.cleared + b.cleared,
    margin: a.margin + b.margin,
    marginSquares: a.marginSquares + b.marginSquares,
  }
}

/** `Var(ln kept) = (1 - wT) / (nT wT) + (1 - wC) / (nC wC)`. */
function keptOf(treated: ArmSums, control: ArmSums): Interval | null {
  if (treated.wins === 0 || control.wins === 0) return null
  const rateT = Math.min(1, treated.wins / treated.bids)
  const rateC = Math.min(1, control.wins / control.bids)
  const variance = (1 - rateT) / (treated.bids * rateT) + (1 - rateC) / (control.bids * rateC)
  const spread = Math.exp(z95 * Math.sqrt(variance))
  const at = rateT / rateC
  return { at, lower: at / spread, upper: at * spread }
}

function upliftOf(treated: ArmSums, control: ArmSums): Interval | null {
  if (treated.bids === 0 || control.bids === 0) return null
  const meanT = treated.margin / treated.bids
  const meanC = control.margin / control.bids
  const variance = (of: ArmSums, mean: number) =>
    Math.max(0, of.marginSquares / of.bids - mean * mean) / of.bids
  const half = z95 * Math.sqrt(variance(treated, meanT) + variance(control, meanC))
  const at = meanT - meanC
  return { at, lower: at - half, upper: at + half }
}

export function compared(stats: ModeStats): Comparison {
  const holdout = stats.sums('holdout')
  const optimised = added(stats.sums('treated'), stats.sums('explored'))
  return {
    holdout,
    optimised,
    kept: keptOf(optimised, holdout),
    uplift: upliftOf(optimised, holdout),
  }
}
