/** Metrics of the process, its configuration, the store, Redis and the decision log. */
import { Counter, collectDefaultMetrics, Histogram, type Registry } from 'prom-client'
import { type Difference, fingerprintParts } from '../admin/fleet/fingerprints.ts'
import { programVersion } from '../admin/http/version.ts'
import { byName, counter, gauge, type MetricRow, one, registerRows } from '../opd/base/metrics.ts'
import { type FaultCounts, faultPlaces } from '../opd/shared/fault-log.ts'
import { bounds } from '../proxy/metrics.ts'
import type { DayCap } from './opd-state.ts'
import type { StoredSupplierCounts } from './stored-suppliers.ts'

/** `ratesAge`: milliseconds; null: there are no rates with a date. `droppedLines`: of the log. */
export function bindProcessMetrics(
  registry: Registry,
  ratesAge: () => number | null,
  droppedLines: () => number,
) {
  collectDefaultMetrics({ register: registry })
  // These gauges have names of counters; the same figures are in the metrics by type.
  for (const name of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`nodejs_active_${name}_total`)
  const version = programVersion()
  const life = { draining: false }
  registerRows(registry, [
    gauge('bidweir_draining', '1 from the signal to end until the end of the process', () =>
      one(Number(life.draining)),
    ),
    counter(
      'bidweir_log_lines_dropped_total',
      'Lines of the log of the first process that were dropped because 1 MiB of them waited for a slow reader',
      () => one(droppedLines()),
    ),
    gauge('bidweir_build_info', '1; the labels name the running version', () =>
      one(1, { version, node: process.versions.node }),
    ),
    gauge(
      'bidweir_rates_age_seconds',
      'Age of the exchange rates by their asOf; absent if they have none',
      () => {
        const age = ratesAge()
        return age === null ? [] : one(age / 1000)
      },
    ),
  ])
  const store = new Histogram({
    name: 'bidweir_store_commit_seconds',
    help: 'Commits of the impression ledger',
    buckets: bounds.filter((bound) => bound >= 0.0005 && bound <= 1),
    registers: [registry],
  })
  const commits = new RecentMean()
  return {
    reloads: createReloadMeter(registry),
    /** Seconds of a commit of the impression ledger. */
    observeCommit(seconds: number) {
      store.observe(seconds)
      commits.addValue(seconds)
    },
    commits,
    life,
  }
}

/** Milliseconds in which the weight of a value falls to a third. */
const recent = 30_000

/** The mean of the values of the last minute or so. */
class RecentMean {
  private sum = 0
  private count = 0
  private updatedAt = performance.now()

  private decay(): void {
    const now = performance.now()
    const left = Math.exp((this.updatedAt - now) / recent)
    this.sum *= left
    this.count *= left
    this.updatedAt = now
  }

  addValue(value: number): void {
    this.decay()
    this.sum += value
    this.count++
  }

  /** 0: there were none. */
  get mean(): number {
    this.decay()
    return this.count < 0.1 ? 0 : this.sum / this.count
  }
}

export interface ReloadState {
  /** Whether the last reload was taken. */
  successful: boolean
  /** The changed keys that take effect only after a restart. */
  restart: readonly string[]
}

/** What the last reload came to, and whether a change waits for a restart. */
function createReloadMeter(registry: Registry) {
  const reloads = new Counter({
    name: 'bidweir_config_reloads_total',
    help: 'Reloads of the configuration, by result: taken or refused',
    labelNames: ['result'],
    registers: [registry],
  })
  // An alert on an increase needs the value before the first reload.
  for (const result of ['taken', 'refused']) reloads.inc({ result }, 0)
  let successful = true
  let times = 0
  let takenAt = Date.now()
  let restart: readonly string[] = []
  let kept = 0
  registerRows(registry, [
    gauge(
      'bidweir_config_last_reload_successful',
      '0 while the configuration file is one that was refused; the last good one is in use',
      () => one(Number(successful)),
    ),
    gauge(
      'bidweir_supplier_files_refused',
      'Files of suppliersFrom with a fault, whose suppliers stay as they were',
      () => one(kept),
    ),
    gauge(
      'bidweir_config_last_reload_success_timestamp_seconds',
      'Unix time at which the configuration in use was loaded',
      () => one(takenAt / 1000),
    ),
    gauge(
      'bidweir_restart_needed',
      '1 while a change of the configuration file waits for a restart',
      () => one(Number(restart.length > 0)),
    ),
  ])
  return {
    state: (): ReloadState => ({ successful, restart }),
    /** Reloads that were taken. */
    times: () => times,
    refused() {
      successful = false
      reloads.inc({ result: 'refused' })
    },
    /** `files`: those of `suppliersFrom` that the last reload refused. */
    kept(files: number) {
      kept = files
    },
    /** `waiting`: the changed keys that take effect only after a restart. */
    taken(waiting: readonly string[]) {
      successful = true
      times++
      takenAt = Date.now()
      restart = waiting
      reloads.inc({ result: 'taken' })
    },
  }
}

interface WriteCounts {
  written: number
  dropped: number
  failed: number
}

interface StateParts {
  redis: {
    connected: boolean
    counts: WriteCounts & { again: number }
    shared: { isComplete: boolean }
  } | null
  ledger: { waiting: number; replaced: number }
  outcomes: { waiting: number; counts: { recovered: number } }
  /** Parts of the database that did not complete a write, as seen last. */
  lost: () => string[]
  sink: { counts: WriteCounts } | null
  stats: { faults: FaultCounts }
  /** Milliseconds. */
  clockAhead: () => number
  /** From most of the nodes. */
  differences: () => readonly Difference[]
  nodes: () => number
  suppliers: () => StoredSupplierCounts & { all: number }
  /** Suppliers with a cap of a day, and the share of it that is used. */
  dayCaps: () => Iterable<DayCap>
}

function redisRows(redis: NonNullable<StateParts['redis']>): MetricRow[] {
  const { counts } = redis
  return [
    gauge('bidweir_redis_up', '1 while Redis is connected and answers', () =>
      one(Number(redis.connected)),
    ),
    counter('bidweir_redis_written_total', 'Bids written to the shared log', () =>
      one(counts.written),
    ),
    counter(
      'bidweir_redis_dropped_total',
      'Bids not written to the shared log at their time: the queue was full, or the connection was lost',
      () => one(counts.dropped),
    ),
    counter(
      'bidweir_redis_rewritten_total',
      'Bids written to the shared log again, after Redis or the connection was lost',
      () => one(counts.again),
    ),
    gauge(
      'bidweir_redis_bids_complete',
      '1 while the shared log has the bids of all nodes; else a notice without a context is provisional',
      () => one(Number(redis.shared.isComplete)),
    ),
    counter('bidweir_redis_failures_total', 'Commands of Redis that failed', () =>
      one(counts.failed),
    ),
  ]
}

function decisionLogRows({ counts }: NonNullable<StateParts['sink']>): MetricRow[] {
  return [
    counter('bidweir_decision_log_lines_total', 'Lines written', () => one(counts.written)),
    counter('bidweir_decision_log_dropped_total', 'Lines dropped because the queue was full', () =>
      one(counts.dropped),
    ),
    counter(
      'bidweir_decision_log_failures_total',
      'Lines that could not be written to the disk',
      () => one(counts.failed),
    ),
  ]
}

/** Nobody waits for a write of the store: each call returns the result of the last one, and starts the next. */
export function lastLost(store: { lost(): Promise<string[]> }): () => string[] {
  let lost: string[] = []
  return () => {
    void store.lost().then((parts) => {
      lost = parts
    })
    return lost
  }
}

export function bindStateMetrics(registry: Registry, parts: StateParts): void {
  const { redis, ledger, outcomes, lost, sink, stats, clockAhead, differences } = parts
  const { nodes, suppliers, dayCaps } = parts
  registerRows(registry, [
    gauge(
      'bidweir_store_up',
      '1 if each part of the database completed a write at the scrape before',
      () => one(Number(lost().length === 0)),
    ),
    gauge('bidweir_ledger_waiting', 'Notices that wait for the commit of the store', () =>
      one(ledger.waiting),
    ),
    counter(
      'bidweir_ledger_replaced_total',
      'Unattributed rows replaced because a later notice attributed the win',
      () => one(ledger.replaced),
    ),
    gauge(
      'bidweir_outcomes_waiting',
      'Wins, losses and voids in memory that the event log does not have yet; more than 20,000 wait in the database alone',
      () => one(outcomes.waiting),
    ),
    counter(
      'bidweir_outcomes_recovered_total',
      'Notices on disk that were counted and trained the model after a commit without a response, or for a process that ended',
      () => one(outcomes.counts.recovered),
    ),
    gauge(
      'bidweir_clock_offset_seconds',
      'How far the clock of PostgreSQL, which all nodes use, is ahead of the clock of this node, to half a second; 0 with SQLite',
      () => one(clockAhead() / 1000),
    ),
    gauge(
      'bidweir_node_differs',
      '1 if the context keys or the configuration of this node differ from those of most nodes, or, if no values are those of most, from those of any',
      () =>
        byName('what', fingerprintParts, (what) =>
          Number(differences().some(({ part }) => part === what)),
        ),
    ),
    gauge('bidweir_live_nodes', 'Nodes that share the allotments of this location', () =>
      one(nodes()),
    ),
    gauge('bidweir_suppliers', 'Suppliers in use, by origin: file or api', () => {
      const { all, used } = suppliers()
      return [
        { value: all - used, labels: { origin: 'file' } },
        { value: used, labels: { origin: 'api' } },
      ]
    }),
    gauge(
      'bidweir_supplier_conflicts',
      'Suppliers that the file and the API both have; that of the file is used',
      () => one(suppliers().conflicts),
    ),
    gauge(
      'bidweir_suppliers_refused',
      'Suppliers of the API whose last version this node cannot use; it keeps the version before',
      () => one(suppliers().refused),
    ),
    counter(
      'bidweir_engine_faults_total',
      'Exceptions in the pricing engine, by place; the bid then keeps its price',
      () => byName('place', faultPlaces, (place) => stats.faults[place]),
    ),
    gauge(
      'bidweir_opd_day_cap_used_ratio',
      'Share of opd.caps.perDay that OPD took off today (UTC), on all nodes; from 1 on, bids keep their price',
      function* () {
        for (const { supplier, amount, cap } of dayCaps())
          yield { value: amount / cap, labels: { ssp: supplier } }
      },
    ),
    ...(redis === null ? [] : redisRows(redis)),
    ...(sink === null ? [] : decisionLogRows(sink)),
  ])
}
