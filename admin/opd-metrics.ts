/** OPD's part of `/metrics` (CONTRACT 10): nothing is touched before a scrape but plain numbers. */
import type { Gauge, Registry } from 'prom-client'
import { type Mode, modes } from '../opd/arms.ts'
import type { EngineStats, SupplierStats } from '../opd/engine/stats.ts'
import type { ImpressionCounters, SupplierMoney } from './impressions/counters.ts'
import { type Comparison, compared } from './opd-metrics/kept.ts'
import {
  answerSamples,
  bidSamples,
  factorSamples,
  type Labels,
  type Sample,
} from './opd-metrics/samples.ts'

export interface OpdMetricsDeps {
  stats: EngineStats
  counters: ImpressionCounters
  /** Suppliers whose `opd` block has faults. */
  invalid: () => Iterable<{ ssp: string; invalid: boolean }>
  bidLog: { stats: { entries: number; bytes: number; evicted: number; expired: number } }
  model: (mode: Mode) => { version: number; ageSeconds: number }
}

type Kind = 'counter' | 'gauge' | 'histogram'
type Row = [name: string, kind: Kind, help: string, samples: () => Iterable<Sample>]

/** A metric whose values are made at the scrape. */
function collected(registry: Registry, [name, type, help, samples]: Row): void {
  const shape = { name, help, type, aggregator: 'sum' as const }
  const metric = {
    ...shape,
    get: async () => ({ ...shape, values: [...samples()] }),
    reset: () => {},
  }
  registry.registerMetric(metric as unknown as Gauge)
}

const one = (value: number, labels: Labels = {}): Sample[] => [{ value, labels }]

export function opdMetrics(registry: Registry, deps: OpdMetricsDeps): void {
  const { stats, counters, bidLog } = deps

  function* perMode(value: (of: SupplierStats, mode: Mode) => number) {
    for (const [ssp, own] of stats.suppliers)
      for (const mode of modes) yield { value: value(own, mode), labels: { ssp, mode } }
  }
  function* perSupplierMoney(pick: (money: SupplierMoney) => number) {
    for (const [key, money] of counters.money) {
      const [ssp, mode] = key.split('\t') as [string, string]
      yield { value: pick(money), labels: { ssp, mode } }
    }
  }
  function* impressionSamples() {
    for (const [key, value] of counters.impressions) {
      const [ssp, mode, status, attribution, event] = key.split('\t') as [
        string,
        string,
        string,
        string,
        string,
      ]
      yield { value, labels: { ssp, mode, status, attribution, event } }
    }
  }
  function* comparisons(pick: (of: Comparison) => number | null) {
    for (const [ssp, own] of stats.suppliers)
      for (const mode of modes) {
        const value = pick(compared(own.modes[mode]))
        if (value !== null) yield { value, labels: { ssp, mode } }
      }
  }
  function* winRates() {
    for (const [ssp, own] of stats.suppliers)
      for (const mode of modes) {
        const { holdout, optimised } = compared(own.modes[mode])
        for (const [arm, sums] of [
          ['holdout', holdout],
          ['optimised', optimised],
        ] as const)
          if (sums.bids > 0) yield { value: sums.wins / sums.bids, labels: { ssp, mode, arm } }
      }
  }
  function* names(of: ImpressionCounters['publishers'], label: 'publisher' | 'domain') {
    of.promote()
    for (const { ssp, mode, name, value } of of.samples())
      yield { value, labels: { ssp, mode, [label]: name } }
  }

  const rows: Row[] = [
    ['bidweir_bids_total', 'counter', 'Bids by what became of them', () => bidSamples(stats)],
    [
      'bidweir_answers_untouched_total',
      'counter',
      'Answers left as they came, by reason',
      () => answerSamples(stats),
    ],
    ['bidweir_factor', 'histogram', 'out_ba over in_ba', () => factorSamples(stats)],
    [
      'bidweir_in_price_sum',
      'counter',
      'in_ba of priced bids, CPM in the base currency',
      () => perMode((own, mode) => own.modes[mode].inSum),
    ],
    [
      'bidweir_out_price_sum',
      'counter',
      'out_ba of priced bids, CPM in the base currency',
      () => perMode((own, mode) => own.modes[mode].outSum),
    ],
    [
      'bidweir_learner_errors_total',
      'counter',
      'Decisions that the model failed at',
      () => perMode((own, mode) => own.modes[mode].learnerErrors),
    ],
    [
      'bidweir_contexts_cut_total',
      'counter',
      'Contexts without room for the features of the model',
      () => perMode((own, mode) => own.modes[mode].contextsCut),
    ],
    [
      'bidweir_impressions_received_total',
      'counter',
      'Notices that were answered for good',
      () => one(counters.received),
    ],
    [
      'bidweir_impressions_unavailable_total',
      'counter',
      'Notices answered 503, to be sent again',
      () => one(counters.unavailable),
    ],
    ['bidweir_impressions_total', 'counter', 'Notices by what became of them', impressionSamples],
    [
      'bidweir_impressions_late_total',
      'counter',
      'Attributed after the attribution window',
      () => perSupplierMoney((money) => money.late),
    ],
    [
      'bidweir_impressions_over_total',
      'counter',
      'Cleared more than 0.5 % above out_ba',
      () => perSupplierMoney((money) => money.over),
    ],
    [
      'bidweir_impressions_unreadable_margin_total',
      'counter',
      'Margin-balancing wins with a context that cannot be read',
      () => one(counters.unreadableMargin),
    ],
    [
      'bidweir_cleared_price_sum',
      'counter',
      'Cleared prices, CPM in the base currency',
      () => perSupplierMoney((money) => money.cleared),
    ],
    [
      'bidweir_won_out_price_sum',
      'counter',
      'out_ba of the same wins',
      () => perSupplierMoney((money) => money.out),
    ],
    [
      'bidweir_margin_sum',
      'gauge',
      'Revenue less cleared price, CPM in the base currency; may fall',
      () => perSupplierMoney((money) => money.margin),
    ],
    [
      'bidweir_contexts_total',
      'counter',
      'Contexts of notices by state',
      () =>
        Object.entries(counters.contexts).map(([context, value]) => ({
          value,
          labels: { context },
        })),
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
      'Its lower 95 % bound',
      () => comparisons(({ kept }) => kept?.lower ?? null),
    ],
    [
      'bidweir_kept_win_rate_upper',
      'gauge',
      'Its upper 95 % bound',
      () => comparisons(({ kept }) => kept?.upper ?? null),
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
      'Its lower 95 % bound',
      () => comparisons(({ uplift }) => uplift?.lower ?? null),
    ],
    [
      'bidweir_uplift_upper',
      'gauge',
      'Its upper 95 % bound',
      () => comparisons(({ uplift }) => uplift?.upper ?? null),
    ],
    [
      'bidweir_publisher_impressions_total',
      'counter',
      'Attributed impressions by publisher',
      () => names(counters.publishers, 'publisher'),
    ],
    [
      'bidweir_domain_impressions_total',
      'counter',
      'Attributed impressions by domain',
      () => names(counters.domains, 'domain'),
    ],
    [
      'bidweir_opd_config_invalid',
      'gauge',
      '1 where the opd block of a supplier has faults',
      () =>
        [...deps.invalid()].map(({ ssp, invalid }) => ({
          value: invalid ? 1 : 0,
          labels: { ssp },
        })),
    ],
    [
      'bidweir_bidlog_entries',
      'gauge',
      'Decisions in the bid log of this node',
      () => one(bidLog.stats.entries),
    ],
    ['bidweir_bidlog_bytes', 'gauge', 'Memory of the bid log', () => one(bidLog.stats.bytes)],
    [
      'bidweir_bidlog_dropped_total',
      'counter',
      'Decisions that left the bid log',
      () => [
        ...one(bidLog.stats.evicted, { reason: 'full' }),
        ...one(bidLog.stats.expired, { reason: 'expired' }),
      ],
    ],
    [
      'bidweir_model_version',
      'gauge',
      'Rises with each snapshot or rollback',
      () => modes.map((mode) => ({ value: deps.model(mode).version, labels: { mode } })),
    ],
    [
      'bidweir_model_age_seconds',
      'gauge',
      'Since the model last changed its version',
      () => modes.map((mode) => ({ value: deps.model(mode).ageSeconds, labels: { mode } })),
    ],
  ]
  for (const row of rows) collected(registry, row)
}
