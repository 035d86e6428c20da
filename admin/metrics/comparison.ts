/** The sums of optimized bids and of the holdout, which are compared, and their metrics. */

import { counter, FoldedSum, type Labels, type MetricRow } from '../../opd/base/metrics.ts'
import type { ArmSums, EngineStats, ModeStats } from '../../opd/pricing/stats.ts'
import { modes } from '../../opd/shared/arms.ts'

export const comparedArms = ['optimised', 'holdout'] as const
export type ArmPair = Record<(typeof comparedArms)[number], ArmSums>

function addedArms(a: ArmSums, b: ArmSums): ArmSums {
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

/**
 * The sums of optimised bids, which are copied, and those of the holdout, which may still change.
 *
 * @param stats of one supplier and mode
 */
export const armPairOf = (stats: ModeStats): ArmPair => ({
  optimised: addedArms(stats.sums('treated'), stats.sums('explored')),
  holdout: stats.sums('holdout'),
})

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

/** A node may get the notices of bids that others decided. */
const hasCounted = ({ bids, wins, spend }: ArmSums) => bids > 0 || wins > 0 || spend > 0

/**
 * Sums by arm. Ratios of these sums over all nodes are the win rate, kept wins, kept spend and uplift of the fleet; the
 * gauges of one node cannot be added. `top`: the integrations with series of their own, chosen at the start of a scrape.
 */
export function armMetrics(stats: EngineStats, top: () => ReadonlySet<ModeStats>): MetricRow[] {
  function* rows(arm: keyof ArmPair): Generator<[ModeStats, Labels] | null> {
    for (const [ssp, supplierStats] of stats.suppliers) {
      for (const mode of modes)
        if (hasCounted(armPairOf(supplierStats.modes[mode])[arm]))
          yield [supplierStats.modes[mode], { ssp, mode, arm }]
      yield null
    }
  }
  return sums.map(([name, field, help]) => {
    const folded = comparedArms.map((arm) => ({
      arm,
      sum: new FoldedSum((modeStats: ModeStats) => armPairOf(modeStats)[arm][field]),
    }))
    return counter(name, help, function* () {
      for (const { arm, sum } of folded) yield* sum.samples(rows(arm), top())
    })
  })
}
