/**
 * Comparison of optimized bids with the holdout: kept win rate, kept spend and uplift, with intervals that are valid
 * at any time.
 */
import type { ArmSums, ModeStats } from '../../opd/engine/stats.ts'
import { type Interval, keptSpend, keptWins, uplift } from '../../opd/pricing/confidence.ts'

export type { Interval }
export interface Comparison {
  holdout: ArmSums
  optimised: ArmSums
  /** Ratio of win rates; null before both have won. */
  kept: Interval | null
  /** Ratio of spend (wins weighted by in_ba) per bid. */
  keptSpend: Interval | null
  /** Difference of margin per bid, CPM in the base currency. */
  uplift: Interval | null
}

export function addedArms(a: ArmSums, b: ArmSums): ArmSums {
  return {
    bids: a.bids + b.bids,
    wins: a.wins + b.wins,
    in: a.in + b.in,
    cleared: a.cleared + b.cleared,
    margin: a.margin + b.margin,
    marginSquares: a.marginSquares + b.marginSquares,
    spend: a.spend + b.spend,
    spendSquares: a.spendSquares + b.spendSquares,
  }
}

/** The two sides of the comparison; both may still change. */
export const sides = (stats: ModeStats): Pick<Comparison, 'holdout' | 'optimised'> => ({
  holdout: stats.sums('holdout'),
  optimised: addedArms(stats.sums('treated'), stats.sums('explored')),
})

export function compared(stats: ModeStats): Comparison {
  const { holdout, optimised } = sides(stats)
  return {
    holdout,
    optimised,
    kept: keptWins(optimised, holdout),
    keptSpend: keptSpend(optimised, holdout),
    uplift: uplift(optimised, holdout),
  }
}
