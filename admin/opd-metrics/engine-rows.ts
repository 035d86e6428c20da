/** What the engine decided, and how the optimised bids compare with the holdout. */
import { guards, isAlarm, type Mode, modes } from '../../opd/arms.ts'
import type { EngineStats, ModeStats } from '../../opd/engine/stats.ts'
import { type Comparison, compared } from './kept.ts'
import { answerSamples, bidSamples, factorSamples, live, type Row, type Sample } from './samples.ts'

export function engineRows(stats: EngineStats): Row[] {
  function* each(
    samples: (of: ModeStats, labels: { ssp: string; mode: Mode }) => Iterable<Sample>,
  ) {
    for (const [ssp, own] of stats.suppliers)
      for (const mode of modes)
        if (live(own.modes[mode])) yield* samples(own.modes[mode], { ssp, mode })
  }
  const perMode = (value: (of: ModeStats) => number) =>
    each((of, labels) => [{ value: value(of), labels }])
  const comparisons = (pick: (of: Comparison) => number | null) =>
    each((of, labels) => {
      const value = pick(compared(of))
      return value === null ? [] : [{ value, labels }]
    })
  const winRates = () =>
    each((of, labels) => {
      const { holdout, optimised } = compared(of)
      return Object.entries({ holdout, optimised })
        .filter(([, { bids }]) => bids > 0)
        .map(([arm, { wins, bids }]) => ({ value: wins / bids, labels: { ...labels, arm } }))
    })

  return [
    ['bidweir_bids_total', 'counter', 'Bids by what became of them', () => bidSamples(stats)],
    [
      'bidweir_answers_untouched_total',
      'counter',
      'Answers left as they came, by reason',
      () => answerSamples(stats),
    ],
    ['bidweir_factor', 'histogram', 'out_ba over in_ba', () => factorSamples(stats)],
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
        each(({ guard }, labels) =>
          guard === null
            ? []
            : guards.map((name) => ({
                value: name === guard ? 1 : 0,
                labels: { ...labels, guard: name },
              })),
        ),
    ],
    [
      'bidweir_opd_guard_alarms_total',
      'counter',
      'How often a guard began to act',
      () =>
        each(({ alarms }, labels) =>
          guards.flatMap((guard, at) =>
            isAlarm(guard) ? [{ value: alarms[at]!, labels: { ...labels, guard } }] : [],
          ),
        ),
    ],
    [
      'bidweir_opd_theta',
      'gauge',
      'Multiplier of spend at the latest decision: out = argmax (theta in + lambda - p) W(p)',
      () => perMode(({ theta }) => theta),
    ],
    [
      'bidweir_opd_lambda',
      'gauge',
      'Multiplier of wins, CPM in the base currency',
      () => perMode(({ lambda }) => lambda),
    ],
    [
      'bidweir_learner_errors_total',
      'counter',
      'Decisions that the model failed at',
      () => perMode((of) => of.learnerErrors),
    ],
    [
      'bidweir_contexts_cut_total',
      'counter',
      'Contexts without room for the features of the model',
      () => perMode((of) => of.contextsCut),
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
