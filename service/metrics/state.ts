/** Metrics of queues, drops and failures of the store, Redis and the decision log. */
import type { Registry } from 'prom-client'
import { type FaultCounts, faultPlaces } from '../../opd/engine/fault-log.ts'
import {
  byName,
  counter,
  gauge,
  type MetricRow,
  one,
  registerRows,
} from '../../opd/shared/metrics.ts'
import type { DayCap } from '../day-caps.ts'

interface WriteCounts {
  written: number
  dropped: number
  failed: number
}

interface StateParts {
  redis: { connected: boolean; counts: WriteCounts } | null
  ledger: { waiting: number; replaced: number }
  store: { lost(): Promise<string[]> }
  sink: { counts: WriteCounts } | null
  stats: { faults: FaultCounts }
  nodes: () => number
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
      'Bids not written to the shared log: the queue was full, or the connection was lost',
      () => one(counts.dropped),
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

/** A scrape cannot wait for a write of the store: each shows the result of the last one, and starts the next. */
function storeState(store: StateParts['store']): () => number {
  let up = 1
  return () => {
    void store.lost().then((parts) => {
      up = Number(parts.length === 0)
    })
    return up
  }
}

export function bindStateMetrics(registry: Registry, parts: StateParts): void {
  const { redis, ledger, store, sink, stats, nodes, dayCaps } = parts
  const storeUp = storeState(store)
  registerRows(registry, [
    gauge(
      'bidweir_store_up',
      '1 if each part of the database completed a write at the scrape before',
      () => one(storeUp()),
    ),
    gauge('bidweir_ledger_waiting', 'Notices that wait for the commit of the store', () =>
      one(ledger.waiting),
    ),
    counter(
      'bidweir_ledger_replaced_total',
      'Unattributed rows replaced because a later notice attributed the win',
      () => one(ledger.replaced),
    ),
    gauge('bidweir_live_nodes', 'Nodes that share the allotments of this location', () =>
      one(nodes()),
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
