/** The OPD metrics of `/metrics` (CONTRACT 10). They read plain numbers, at a scrape only. */
import type { Gauge, Registry } from 'prom-client'
import type { EngineStats } from '../../opd/engine/stats.ts'
import { type Mode, modes } from '../../opd/pricing/arms.ts'
import type { ImpressionCounters } from '../impressions/counters.ts'
import { engineRows } from './engine-rows.ts'
import { noticeRows } from './notice-rows.ts'
import { one, type Row } from './samples.ts'

export interface OpdMetricsDeps {
  stats: EngineStats
  counters: ImpressionCounters
  /** Suppliers, and whether their `opd` block is invalid. */
  invalid: () => Iterable<{ ssp: string; invalid: boolean }>
  bidLog: { stats: { entries: number; bytes: number; evicted: number; expired: number } }
  model: (mode: Mode) => { version: number; ageSeconds: number }
}

/** A metric whose samples are made at the scrape, one by one (`exposition`), or all at once for prom-client. */
function collected(registry: Registry, row: Row): void {
  const [name, type, help, samples] = row
  const shape = { name, help, type, aggregator: 'sum' as const }
  const metric = {
    ...shape,
    samples,
    get: async () => ({ ...shape, values: [...samples()].filter((sample) => sample !== null) }),
    reset: () => {},
  }
  registry.registerMetric(metric as unknown as Gauge)
}

function nodeRows({ invalid, bidLog, model }: OpdMetricsDeps): Row[] {
  return [
    [
      'bidweir_opd_config_invalid',
      'gauge',
      '1 where the opd block of a supplier has faults',
      function* () {
        for (const { ssp, invalid: is } of invalid()) yield { value: is ? 1 : 0, labels: { ssp } }
      },
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
      () => modes.map((mode) => ({ value: model(mode).version, labels: { mode } })),
    ],
    [
      'bidweir_model_age_seconds',
      'gauge',
      'Since the model last changed its version',
      () => modes.map((mode) => ({ value: model(mode).ageSeconds, labels: { mode } })),
    ],
  ]
}

export function opdMetrics(registry: Registry, deps: OpdMetricsDeps): void {
  const rows = [...engineRows(deps.stats), ...noticeRows(deps.counters), ...nodeRows(deps)]
  for (const row of rows) collected(registry, row)
}
