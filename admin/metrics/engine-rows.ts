/** Metrics of the pricing engine, and the comparison with the holdout. */

import type { EngineStats, ModeStats } from '../../opd/engine/stats.ts'
import { guards, isAlarm, type Mode, modes } from '../../opd/pricing/arms.ts'
import type { MetricRow, Sample } from '../../opd/shared/metrics.ts'
import { type Comparison, compared } from './kept.ts'
import { answerSamples, bidSamples, factorSamples, live } from './samples.ts'

/** Integrations with win rates, multipliers and guards in /metrics: those with the most bids. */
const maxIntegrations = 300

function topIntegrations(stats: EngineStats): Set<ModeStats> {
  const all = [...stats.suppliers.values()].flatMap((own) => modes.map((mode) => own.modes[mode]))
  const counted = all
    .map((of) => ({ of, bids: of.arms.reduce((sum, { bids }) => sum + bids, 0) }))
    .filter(({ bids }) => bids > 0)
  if (counted.length > maxIntegrations) counted.sort((one, other) => other.bids - one.bids)
  return new Set(counted.slice(0, maxIntegrations).map(({ of }) => of))
}

export function engineRows(stats: EngineStats): MetricRow[] {
  function* each(
    samples: (of: ModeStats, labels: { ssp: string; mode: Mode }) => Iterable<Sample>,
  ) {
    for (const [ssp, own] of stats.suppliers) {
      for (const mode of modes)
        if (live(own.modes[mode])) yield* samples(own.modes[mode], { ssp, mode })
      yield null
    }
  }
  const perMode = (value: (of: ModeStats) => number) =>
    each((of, labels) => [{ value: value(of), labels }])
  /** Chosen at the start of a scrape: comparisons of thousands of integrations would take half of its time. */
  let top: ReadonlySet<ModeStats> = new Set()
  function* bids() {
    top = topIntegrations(stats)
    yield* bidSamples(stats)
  }
  const eachTop: typeof each = (samples) =>
    each((of, labels) => (top.has(of) ? samples(of, labels) : []))
  const perModeOnce = (value: (of: ModeStats) => number) =>
    each((of, labels) => (value(of) === 0 ? [] : [{ value: value(of), labels }]))
  const comparisons = (pick: (of: Comparison) => number | null) =>
    eachTop((of, labels) => {
      const value = pick(compared(of))
      return value === null ? [] : [{ value, labels }]
    })
  const winRates = () =>
    eachTop((of, labels) => {
      const { holdout, optimised } = compared(of)
      return Object.entries({ holdout, optimised })
        .filter(([, { bids }]) => bids > 0)
        .map(([arm, { wins, bids }]) => ({ value: wins / bids, labels: { ...labels, arm } }))
    })

  return [
    ['bidweir_bids_total', 'counter', 'Bids by what became of them', bids],
    [
      'bidweir_answers_untouched_total',
      'counter',
      'Answers left as they came, by reason',
      () => answerSamples(stats),
    ],
    ['bidweir_factor', 'histogram', 'out_ba over in_ba', factorSamples('bidweir_factor', stats)],
    [
      'bidweir_in_price_sum_total',
      'counter',
      'in_ba of priced bids, CPM in the base currency',
      () => perMode((of) => of.inSum),
    ],
    [
      'bidweir_out_price_sum_total',
      'counter',
      'out_ba of priced bids, CPM in the base currency',
      () => perMode((of) => of.outSum),
    ],
    [
      'bidweir_opd_guard',
      'gauge',
      '1 for what held up the prices of the latest decision; start is the shallow beginning, none is nothing',
      () =>
        eachTop(({ guard }, labels) =>
          guard === null ? [] : [{ value: 1, labels: { ...labels, guard } }],
        ),
    ],
    [
      'bidweir_opd_guard_alarms_total',
      'counter',
      'How often a guard began to act',
      () =>
        each(({ alarms }, labels) =>
          guards.flatMap((guard, at) =>
            isAlarm(guard) && alarms[at]! > 0
              ? [{ value: alarms[at]!, labels: { ...labels, guard } }]
              : [],
          ),
        ),
    ],
    [
      'bidweir_opd_theta',
      'gauge',
      'Multiplier of spend at the latest decision: out = argmax (theta in + lambda - p) W(p)',
      () => eachTop(({ theta }, labels) => [{ value: theta, labels }]),
    ],
    [
      'bidweir_opd_lambda',
      'gauge',
      'Multiplier of wins, CPM in the base currency',
      () => eachTop(({ lambda }, labels) => [{ value: lambda, labels }]),
    ],
    [
      'bidweir_learner_errors_total',
      'counter',
      'Decisions that the model failed at',
      () => perModeOnce((of) => of.learnerErrors),
    ],
    [
      'bidweir_contexts_cut_total',
      'counter',
      'Contexts without room for the features of the model',
      () => perModeOnce((of) => of.contextsCut),
    ],
    [
      'bidweir_opd_exposures_left_out_total',
      'counter',
      'Decisions that do not train the model, nor do their wins: beyond 4,000 a second it is trained with a sample',
      () => perModeOnce((of) => of.exposuresLeftOut),
    ],
    ['bidweir_win_rate', 'gauge', 'Wins per bid of this node since its start', winRates],
    [
      'bidweir_kept_win_rate',
      'gauge',
      'Win rate of optimised bids over the holdout',
      () => comparisons(({ kept }) => kept?.at ?? null),
    ],
    [
      'bidweir_kept_win_rate_lower',
      'gauge',
      'Its lower 95 % bound, valid whenever one looks',
      () => comparisons(({ kept }) => kept?.lower ?? null),
    ],
    [
      'bidweir_kept_win_rate_upper',
      'gauge',
      'Its upper 95 % bound, valid whenever one looks',
      () => comparisons(({ kept }) => kept?.upper ?? null),
    ],
    [
      'bidweir_kept_spend',
      'gauge',
      'Spend per bid (wins weighted by in_ba) of optimised bids over the holdout',
      () => comparisons(({ keptSpend }) => keptSpend?.at ?? null),
    ],
    [
      'bidweir_kept_spend_lower',
      'gauge',
      'Its lower 95 % bound, valid whenever one looks',
      () => comparisons(({ keptSpend }) => keptSpend?.lower ?? null),
    ],
    [
      'bidweir_kept_spend_upper',
      'gauge',
      'Its upper 95 % bound, valid whenever one looks',
      () => comparisons(({ keptSpend }) => keptSpend?.upper ?? null),
    ],
    [
      'bidweir_uplift',
      'gauge',
      'Margin per bid of optimised bids less that of the holdout, CPM',
      () => comparisons(({ uplift }) => uplift?.at ?? null),
    ],
    [
      'bidweir_uplift_lower',
      'gauge',
      'Its lower 95 % bound, valid whenever one looks',
      () => comparisons(({ uplift }) => uplift?.lower ?? null),
    ],
    [
      'bidweir_uplift_upper',
      'gauge',
      'Its upper 95 % bound, valid whenever one looks',
      () => comparisons(({ uplift }) => uplift?.upper ?? null),
    ],
  ]
}
