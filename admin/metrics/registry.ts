/** The OPD metrics of `/metrics` (CONTRACT 10). They read plain numbers, at a scrape only. */
import type { Registry } from 'prom-client'
import {
  byLabel,
  byName,
  counter,
  gauge,
  type MetricRow,
  maxSuppliers,
  one,
  registerRows,
} from '../../opd/base/metrics.ts'
import type { EngineStats } from '../../opd/pricing/stats.ts'
import { type Mode, modes } from '../../opd/shared/arms.ts'
import type { ImpressionCounters } from '../impressions/counters.ts'
import type { SecondResult } from '../impressions/process.ts'
import { engineMetrics, type KeptArms } from './engine.ts'
import { noticeMetrics } from './notices.ts'

interface OpdMetricsDeps {
  stats: EngineStats
  counters: ImpressionCounters
  /** As last read. */
  kept: () => KeptArms
  /** Suppliers, and whether their `opd` block is invalid. */
  invalid: () => Iterable<{ ssp: string; invalid: boolean }>
  bidLog: { stats: { entries: number; bytes: number; evicted: number; expired: number } }
  model: (mode: Mode) => { version: number; ageSeconds: number }
}

function nodeMetrics({ invalid, bidLog, model }: OpdMetricsDeps): MetricRow[] {
  return [
    gauge(
      'bidweir_opd_config_invalid',
      '1 if the opd block of a supplier has faults',
      function* () {
        const all = [...invalid()]
        for (const { ssp, invalid } of all)
          if (invalid || all.length <= maxSuppliers)
            yield { value: invalid ? 1 : 0, labels: { ssp } }
      },
    ),
    gauge('bidweir_bidlog_entries', 'Decisions in the bid log of this node', () =>
      one(bidLog.stats.entries),
    ),
    gauge('bidweir_bidlog_bytes', 'Memory of the bid log', () => one(bidLog.stats.bytes)),
    counter(
      'bidweir_bidlog_dropped_total',
      'Decisions removed from the bid log, by reason: full or expired',
      () => {
        const { evicted, expired } = bidLog.stats
        return byLabel('reason', Object.entries({ full: evicted, expired }))
      },
    ),
    gauge(
      'bidweir_model_version',
      'Version of the model; each snapshot and rollback increases it',
      () => byName('mode', modes, (mode) => model(mode).version),
    ),
    gauge(
      'bidweir_model_age_seconds',
      'Time since the last snapshot of the model was written or restored; without one, since the start',
      () => byName('mode', modes, (mode) => model(mode).ageSeconds),
    ),
  ]
}

/**
 * Registers the metrics of pricing and of notices.
 *
 * @param registry in which none of these names is registered yet
 * @param deps are read at each scrape
 */
export function opdMetrics(registry: Registry, deps: OpdMetricsDeps): void {
  registerRows(registry, [
    ...engineMetrics(deps.stats, deps.kept),
    ...noticeMetrics(deps.counters),
    ...nodeMetrics(deps),
  ])
}

/**
 * Registers the metrics of wins that were looked up again.
 *
 * @param registry in which none of these names is registered yet
 * @param counts since the start, read at each scrape
 */
export function reconcilerMetrics(
  registry: Registry,
  counts: Readonly<Record<SecondResult, number>>,
): void {
  registerRows(registry, [
    counter(
      'bidweir_impressions_looked_up_again_total',
      'Unattributed wins that were looked up again: attributed, still unknown, refused (their reason is in the ledger), or waiting for the shared log',
      () => byLabel('result', Object.entries(counts)),
    ),
  ])
}

/**
 * Registers the metrics of refused log-ins and tokens.
 *
 * @param registry in which none of these names is registered yet
 * @param failures since the start, by kind, read at each scrape
 */
export function authMetrics(registry: Registry, failures: ReadonlyMap<string, number>): void {
  registerRows(registry, [
    counter(
      'bidweir_auth_failures_total',
      'Refused calls and log-ins: the error of the token, or password, refresh_token, throttled',
      () => byLabel('kind', failures),
    ),
  ])
}
