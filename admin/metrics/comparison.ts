/**
 * Comparison of optimized bids with the holdout: kept win rate, kept spend and uplift, with intervals that are valid
 * at any time, and metrics of the sums that it is made of.
 */
import type { ArmSums, EngineStats, ModeStats } from '../../opd/engine/stats.ts'
import { modes } from '../../opd/pricing/arms.ts'
import { type Interval, keptSpend, keptWins, uplift } from '../../opd/pricing/confidence.ts'
import { counter, FoldedSum, type Labels, type MetricRow } from '../../opd/shared/metrics.ts'

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

const sums: readonly [name: string, field: keyof ArmSums, help: string][] = [
  ['bidweir_arm_bids_total', 'bids', 'Bids by arm: holdout, or optimised (treated and explored)'],
  ['bidweir_arm_wins_total', 'wins', 'Wins by arm'],
  ['bidweir_arm_in_price_sum_total', 'in', 'in_ba of bids by arm, CPM in the base currency'],
  [
    'bidweir_arm_won_in_price_sum_total',
    'spend',
    'Revenue of wins by arm (in_ba, or price_dsp with opd.priceDsp), CPM in the base currency',
  ],
  [
    'bidweir_arm_won_in_price_squares_total',
    'spendSquares',
    'Squares of the revenue of wins by arm, for confidence bounds',
  ],
  [
    'bidweir_arm_cleared_price_sum_total',
    'cleared',
    'Cleared prices of wins by arm, CPM in the base currency',
  ],
]

/**
 * Sums by arm. Ratios of these sums over all nodes are the win rate, kept wins, kept spend and uplift of the fleet; the
 * gauges of one node cannot be added. `top`: the integrations with series of their own, chosen at the start of a scrape.
 */
export function armRows(stats: EngineStats, top: () => ReadonlySet<ModeStats>): MetricRow[] {
  function* rows(arm: 'optimised' | 'holdout'): Generator<[ModeStats, Labels] | null> {
    for (const [ssp, own] of stats.suppliers) {
      for (const mode of modes)
        if (sides(own.modes[mode])[arm].bids > 0) yield [own.modes[mode], { ssp, mode, arm }]
      yield null
    }
  }
  return sums.map(([name, field, help]) => {
    const folded = (['optimised', 'holdout'] as const).map((arm) => ({
      arm,
      sum: new FoldedSum((of: ModeStats) => sides(of)[arm][field]),
    }))
    return counter(name, help, function* () {
      for (const { arm, sum } of folded) yield* sum.samples(rows(arm), top())
    })
  })
}
