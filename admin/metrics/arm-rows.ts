/**
 * Sums by arm. Ratios of these sums over all nodes are the win rate, kept wins, kept spend and uplift of the fleet; the
 * gauges of one node cannot be added.
 */
import type { ArmSums, EngineStats, ModeStats } from '../../opd/engine/stats.ts'
import { type Arm, modes } from '../../opd/pricing/arms.ts'
import { counter, FoldedSum, type Labels, type MetricRow } from '../../opd/shared/metrics.ts'

/** The arms of the comparison, and the engine's arms that each contains. */
const compared: Readonly<Record<string, readonly Arm[]>> = {
  optimised: ['treated', 'explored'],
  holdout: ['holdout'],
}

const sums: readonly [name: string, field: keyof ArmSums, help: string][] = [
  ['bidweir_arm_bids_total', 'bids', 'Bids of the comparison with the holdout, by arm'],
  ['bidweir_arm_wins_total', 'wins', 'Wins of these bids'],
  ['bidweir_arm_in_price_sum_total', 'in', 'in_ba of these bids, CPM in the base currency'],
  [
    'bidweir_arm_won_in_price_sum_total',
    'spend',
    'Revenue of these wins: in_ba, or price_dsp with opd.priceDsp',
  ],
  [
    'bidweir_arm_won_in_price_squares_total',
    'spendSquares',
    'Squares of the same, for confidence bounds',
  ],
  ['bidweir_arm_cleared_price_sum_total', 'cleared', 'Cleared prices of these wins'],
]

/** `top`: the integrations with series of their own, chosen at the start of a scrape. */
export function armRows(stats: EngineStats, top: () => ReadonlySet<ModeStats>): MetricRow[] {
  const total = (of: ModeStats, arms: readonly Arm[], field: keyof ArmSums) =>
    arms.reduce((sum, arm) => sum + of.sums(arm)[field], 0)
  function* rows(arm: string): Generator<[ModeStats, Labels] | null> {
    for (const [ssp, own] of stats.suppliers) {
      for (const mode of modes)
        if (total(own.modes[mode], compared[arm]!, 'bids') > 0)
          yield [own.modes[mode], { ssp, mode, arm }]
      yield null
    }
  }
  return sums.map(([name, field, help]) => {
    const folded = Object.entries(compared).map(([arm, arms]) => ({
      arm,
      sum: new FoldedSum((of: ModeStats) => total(of, arms, field)),
    }))
    return counter(name, help, function* () {
      for (const { arm, sum } of folded) yield* sum.samples(rows(arm), top())
    })
  })
}
