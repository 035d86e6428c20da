/** Samples of what the engine counts. */
import { arms, modes } from '../../opd/arms.ts'
import {
  answerReasons,
  bidReasons,
  type EngineStats,
  factorBounds,
  type ModeStats,
} from '../../opd/engine/stats.ts'

export type Labels = Record<string, string | number>
export interface Sample {
  value: number
  labels: Labels
  metricName?: string
}

/** Name, kind, help, and the values at a scrape. */
export type Row = [
  name: string,
  kind: 'counter' | 'gauge' | 'histogram',
  help: string,
  samples: () => Iterable<Sample>,
]

export const one = (value: number, labels: Labels = {}): Sample[] => [{ value, labels }]

/** A mode that is configured, or was: its counters show, at 0 as well. */
export const live = (stats: ModeStats) =>
  stats.configured ||
  stats.left.some((count) => count > 0) ||
  stats.arms.some(({ bids }) => bids > 0)

/** Arms and reasons to leave a bid alone stand under one label; `fixed` bids count under their reason. */
export function* bidSamples(stats: EngineStats): Generator<Sample> {
  for (const [ssp, own] of stats.suppliers)
    for (const mode of modes) {
      const of = own.modes[mode]
      if (!live(of)) continue
      for (const [at, reason] of bidReasons.entries())
        yield { value: of.left[at]!, labels: { ssp, mode, reason } }
      for (const arm of arms)
        if (arm !== 'fixed') yield { value: of.sums(arm).bids, labels: { ssp, mode, reason: arm } }
    }
}

export function* answerSamples(stats: EngineStats): Generator<Sample> {
  for (const [ssp, own] of stats.suppliers) {
    for (const [at, reason] of answerReasons.entries())
      yield { value: own.answers[at]!, labels: { ssp, reason } }
    yield { value: own.faults, labels: { ssp, reason: 'fault' } }
  }
}

export function* factorSamples(stats: EngineStats): Generator<Sample> {
  const name = 'bidweir_factor'
  for (const [ssp, own] of stats.suppliers)
    for (const mode of modes) {
      const of = own.modes[mode]
      if (!live(of)) continue
      let total = 0
      for (const [at, count] of of.factors.entries()) {
        total += count
        const le = factorBounds[at] ?? '+Inf'
        yield { value: total, labels: { ssp, mode, le }, metricName: `${name}_bucket` }
      }
      yield { value: of.factorSum, labels: { ssp, mode }, metricName: `${name}_sum` }
      yield { value: total, labels: { ssp, mode }, metricName: `${name}_count` }
    }
}
