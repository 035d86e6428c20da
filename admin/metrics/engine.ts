/** Metrics of the pricing engine, and the comparison with the holdout. */

import { classicBuckets } from '../../opd/base/buckets.ts'
import { type Histogram, HistogramSeries } from '../../opd/base/histogram-series.ts'
import {
  busiest,
  counter,
  FoldedSum,
  gauge,
  histogram,
  type Labels,
  type MetricRow,
  others,
  type Sample,
} from '../../opd/base/metrics.ts'
import { type EngineStats, factorBounds, type ModeStats } from '../../opd/pricing/stats.ts'
import { arms, guards, isAlarm, type Mode, modes } from '../../opd/shared/arms.ts'
import {
  type Interval,
  type KeptTotals,
  keptSpend,
  keptWins,
  uplift,
} from '../../opd/shared/confidence.ts'
import { bidReasons, responseReasons } from '../../opd/shared/reasons.ts'
import type { ComparedArms } from '../reports/arms.ts'
import { armMetrics } from './comparison.ts'

/** Whether bids arrived in this mode. */
const live = (stats: ModeStats) =>
  stats.left.some((count) => count > 0) || stats.arms.some(({ bids }) => bids > 0)

/** Arms and reasons to leave a bid unchanged share one label; `fixed` bids count under their reason. */
function* bidSamples(stats: EngineStats): Generator<Sample | null> {
  for (const [ssp, supplierStats] of stats.suppliers)
    for (const mode of modes) {
      yield null
      const modeStats = supplierStats.modes[mode]
      for (const [index, reason] of bidReasons.entries())
        if (modeStats.left[index]! > 0)
          yield { value: modeStats.left[index]!, labels: { ssp, mode, reason } }
      for (const arm of arms) {
        const { bids } = modeStats.sums(arm)
        if (arm !== 'fixed' && bids > 0) yield { value: bids, labels: { ssp, mode, reason: arm } }
      }
    }
}

function* answerSamples(stats: EngineStats): Generator<Sample | null> {
  for (const [ssp, supplierStats] of stats.suppliers) {
    yield null
    for (const [index, reason] of responseReasons.entries())
      if (supplierStats.responses[index]! > 0)
        yield { value: supplierStats.responses[index]!, labels: { ssp, reason } }
    if (supplierStats.faults > 0)
      yield { value: supplierStats.faults, labels: { ssp, reason: 'fault' } }
  }
}

/** Factors of the integrations with the most bids, by mode; the others share one series for each mode. */
function factorSamples(name: string, stats: EngineStats): () => Generator<Sample | null> {
  const series = modes.map((mode) => ({
    mode,
    histograms: new HistogramSeries(name, classicBuckets(factorBounds)),
  }))
  function* histograms(mode: Mode): Generator<[Labels, Histogram]> {
    for (const [ssp, { modes }] of stats.suppliers) yield [{ ssp, mode }, modes[mode].factors]
  }
  return function* () {
    for (const { mode, histograms: folded } of series)
      yield* folded.samples(histograms(mode), { ssp: others, mode })
  }
}

const bidsOf = ({ arms }: ModeStats) => arms.reduce((sum, { bids }) => sum + bids, 0)

/** Bids and wins of the last days, of all nodes. */
export type KeptArms = Iterable<{ ssp: string; mode: string; arms: ComparedArms }>

/** A row for each metric of pricing. */
class EngineRows {
  private readonly stats: EngineStats
  private readonly kept: () => KeptArms
  /** Chosen at the start of a scrape: comparisons of thousands of integrations would take half of its time. */
  private top: ReadonlySet<ModeStats> = new Set()

  constructor(stats: EngineStats, kept: () => KeptArms) {
    this.stats = stats
    this.kept = kept
  }

  /** Bids and their prices. Its first row chooses `top`. */
  bidRows(): MetricRow[] {
    return [
      counter('bidweir_bids_total', 'Bids by arm, or by the reason to leave them unchanged', () =>
        this.bidSamples(),
      ),
      counter('bidweir_answers_untouched_total', 'Bid responses left unchanged, by reason', () =>
        answerSamples(this.stats),
      ),
      histogram(
        'bidweir_factor',
        'out_ba divided by in_ba',
        factorSamples('bidweir_factor', this.stats),
      ),
      counter(
        'bidweir_in_price_sum_total',
        'in_ba of priced bids, CPM in the base currency',
        this.folded((modeStats) => modeStats.inSum),
      ),
      counter(
        'bidweir_out_price_sum_total',
        'out_ba of priced bids, CPM in the base currency',
        this.folded((modeStats) => modeStats.outSum),
      ),
      ...armMetrics(this.stats, () => this.top),
    ]
  }

  /** The model and its guards. */
  modelRows(): MetricRow[] {
    return [
      gauge(
        'bidweir_opd_guard',
        '1 for the guard that limited the latest decision; start: a new model, none: no guard',
        () =>
          this.eachTop(({ guard }, labels) =>
            guard === null ? [] : [{ value: 1, labels: { ...labels, guard } }],
          ),
      ),
      counter('bidweir_opd_guard_alarms_total', 'How often a guard began to act', () =>
        this.samplesOf(({ alarms }, labels) =>
          guards.flatMap((guard, index) =>
            isAlarm(guard) && alarms[index]! > 0
              ? [{ value: alarms[index]!, labels: { ...labels, guard } }]
              : [],
          ),
        ),
      ),
      gauge(
        'bidweir_opd_theta',
        'Multiplier of spend at the latest decision: out = argmax (theta in + lambda - p) W(p)',
        () => this.eachTop(({ theta }, labels) => [{ value: theta, labels }]),
      ),
      gauge(
        'bidweir_opd_lambda',
        'Multiplier of wins at the latest decision, CPM in the base currency',
        () => this.eachTop(({ lambda }, labels) => [{ value: lambda, labels }]),
      ),
      counter(
        'bidweir_learner_errors_total',
        'Decisions for which the model failed',
        this.failures((modeStats) => modeStats.learnerErrors),
      ),
      counter(
        'bidweir_contexts_cut_total',
        'Contexts that were too long to contain the features of the model',
        this.failures((modeStats) => modeStats.contextsCut),
      ),
      counter(
        'bidweir_opd_exposures_left_out_total',
        'Decisions that do not train the model, nor do their wins: beyond 4,000 a second it is trained with a sample',
        this.failures((modeStats) => modeStats.exposuresLeftOut),
      ),
    ]
  }

  /** Optimised bids compared with the holdout. */
  comparedRows(): MetricRow[] {
    return [
      gauge('bidweir_win_rate', 'Wins per bid by arm, of all nodes over the last 7 days', () =>
        this.winRates(),
      ),
      ...this.interval(
        ['bidweir_kept_win_rate', 'bidweir_kept_win_rate_lower', 'bidweir_kept_win_rate_upper'],
        'Win rate of optimised bids divided by that of the holdout, of all nodes over the last 7 days',
        keptWins,
      ),
      ...this.interval(
        ['bidweir_kept_spend', 'bidweir_kept_spend_lower', 'bidweir_kept_spend_upper'],
        'Spend per bid (wins weighted by in_ba) of optimised bids divided by that of the holdout, of all nodes over the last 7 days',
        keptSpend,
      ),
      ...this.interval(
        ['bidweir_uplift', 'bidweir_uplift_lower', 'bidweir_uplift_upper'],
        'Margin per bid of optimised bids minus that of the holdout, CPM, of all nodes over the last 7 days',
        uplift,
      ),
    ]
  }

  private *rows(): Generator<[ModeStats, { ssp: string; mode: Mode }] | null> {
    for (const [ssp, supplier] of this.stats.suppliers) {
      for (const mode of modes)
        if (live(supplier.modes[mode])) yield [supplier.modes[mode], { ssp, mode }]
      yield null
    }
  }

  private *allModes() {
    for (const supplier of this.stats.suppliers.values())
      for (const mode of modes) yield supplier.modes[mode]
  }

  private *bidSamples() {
    this.top = yield* busiest(this.allModes(), bidsOf)
    yield* bidSamples(this.stats)
  }

  private *samplesOf(samples: (modeStats: ModeStats, labels: Labels) => Iterable<Sample>) {
    for (const row of this.rows())
      if (row === null) yield null
      else yield* samples(...row)
  }

  /** Those with the most bids. */
  private eachTop(samples: (modeStats: ModeStats, labels: Labels) => Iterable<Sample>) {
    return this.samplesOf((modeStats, labels) =>
      this.top.has(modeStats) ? samples(modeStats, labels) : [],
    )
  }

  /** Those with the most bids. */
  private *eachKept(samples: (arms: ComparedArms, labels: Labels) => Iterable<Sample>) {
    const most = yield* busiest(this.kept(), ({ arms }) => arms.optimised.bids + arms.holdout.bids)
    for (const { ssp, mode, arms } of most) {
      yield null
      yield* samples(arms, { ssp, mode })
    }
  }

  /** Absent while it is 0. */
  private failures(value: (modeStats: ModeStats) => number) {
    return () =>
      this.samplesOf((modeStats, labels) =>
        value(modeStats) === 0 ? [] : [{ value: value(modeStats), labels }],
      )
  }

  private folded(value: (modeStats: ModeStats) => number) {
    const sum = new FoldedSum(value)
    return () => sum.samples(this.rows(), this.top)
  }

  /** The names are written out, so that a search for one finds it. */
  private interval(
    [name, lower, upper]: readonly [string, string, string],
    help: string,
    compare: (optimised: KeptTotals, holdout: KeptTotals) => Interval | null,
  ): MetricRow[] {
    const part = (bound: keyof Interval) => () =>
      this.eachKept(({ optimised, holdout }, labels) => {
        const value = compare(optimised, holdout)?.[bound]
        return value === undefined ? [] : [{ value, labels }]
      })
    return [
      gauge(name, help, part('at')),
      gauge(lower, `Lower 95 % bound of ${name}, valid at every scrape`, part('lower')),
      gauge(upper, `Upper 95 % bound of ${name}, valid at every scrape`, part('upper')),
    ]
  }

  private winRates() {
    return this.eachKept(({ holdout, optimised }, labels) =>
      Object.entries({ holdout, optimised })
        .filter(([, { bids }]) => bids > 0)
        .map(([arm, { wins, bids }]) => ({ value: wins / bids, labels: { ...labels, arm } })),
    )
  }
}

export function engineMetrics(stats: EngineStats, kept: () => KeptArms): MetricRow[] {
  const rows = new EngineRows(stats, kept)
  return [...rows.bidRows(), ...rows.modelRows(), ...rows.comparedRows()]
}
