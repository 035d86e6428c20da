/** Samples of the counters of the pricing engine. */

import {
  bidReasons,
  type EngineStats,
  factorBounds,
  type ModeStats,
  responseReasons,
} from '../../opd/engine/stats.ts'
import { arms, type Mode, modes } from '../../opd/pricing/arms.ts'
import { type Histogram, HistogramSeries, others } from '../../opd/shared/histogram-series.ts'
import type { Labels, Sample } from '../../opd/shared/metrics.ts'

/** Whether bids arrived in this mode. */
export const live = (stats: ModeStats) =>
  stats.left.some((count) => count > 0) || stats.arms.some(({ bids }) => bids > 0)

/** Arms and reasons to leave a bid unchanged share one label; `fixed` bids count under their reason. */
export function* bidSamples(stats: EngineStats): Generator<Sample | null> {
  for (const [ssp, own] of stats.suppliers)
    for (const mode of modes) {
      yield null
      const of = own.modes[mode]
      for (const [at, reason] of bidReasons.entries())
        if (of.left[at]! > 0) yield { value: of.left[at]!, labels: { ssp, mode, reason } }
      for (const arm of arms) {
        const { bids } = of.sums(arm)
        if (arm !== 'fixed' && bids > 0) yield { value: bids, labels: { ssp, mode, reason: arm } }
      }
    }
}

export function* answerSamples(stats: EngineStats): Generator<Sample | null> {
  for (const [ssp, own] of stats.suppliers) {
    yield null
    for (const [at, reason] of responseReasons.entries())
      if (own.responses[at]! > 0) yield { value: own.responses[at]!, labels: { ssp, reason } }
    if (own.faults > 0) yield { value: own.faults, labels: { ssp, reason: 'fault' } }
  }
}

/** Factors of the integrations with the most bids, by mode; the others share one series for each mode. */
export function factorSamples(name: string, stats: EngineStats): () => Generator<Sample | null> {
  const series = modes.map((mode) => ({ mode, of: new HistogramSeries(name, factorBounds) }))
  function* histograms(mode: Mode): Generator<[Labels, Histogram]> {
    for (const [ssp, { modes }] of stats.suppliers) yield [{ ssp, mode }, modes[mode].factors]
  }
  return function* () {
    for (const { mode, of } of series) yield* of.samples(histograms(mode), { ssp: others, mode })
  }
}
