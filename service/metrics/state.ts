/** Metrics of queues, drops and failures of ledger, Redis and decision log. Computed at a scrape. */
import { Counter, Gauge, type Registry } from 'prom-client'
import { type FaultCounts, faultPlaces } from '../../opd/engine/fault-log.ts'

export interface StateParts {
  redis: { connected: boolean; counts: { written: number; dropped: number; failed: number } } | null
  ledger: { waiting: number; replaced: number }
  sink: { counts: { written: number; dropped: number; failed: number } } | null
  stats: { faults: FaultCounts }
  nodes: () => number
}

type Read = () => number

export function bindStateMetrics(registry: Registry, parts: StateParts): void {
  const registers = [registry]
  const gauge = (name: string, help: string, read: Read) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  /** A counter whose value the component keeps itself. */
  const counter = (name: string, help: string, read: Read) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset()
        this.inc(read())
      },
    })

  const { redis, ledger, sink, stats, nodes } = parts
  gauge('bidweir_ledger_waiting', 'Win notices that wait for their commit', () => ledger.waiting)
  counter(
    'bidweir_ledger_replaced_total',
    'Unattributed rows whose wins a later notice attributed',
    () => ledger.replaced,
  )
  gauge('bidweir_live_nodes', 'Nodes that share the allotments of this location', nodes)
  new Counter({
    name: 'bidweir_engine_faults_total',
    help: 'Exceptions in the price engine by place; each left a bid or a response unchanged',
    labelNames: ['place'],
    registers,
    collect() {
      this.reset()
      for (const place of faultPlaces) this.inc({ place }, stats.faults[place])
    },
  })
  if (redis !== null) {
    const { counts } = redis
    gauge('bidweir_redis_up', '1 while Redis is connected', () => Number(redis.connected))
    counter('bidweir_redis_written_total', 'Bids written to the shared log', () => counts.written)
    counter(
      'bidweir_redis_dropped_total',
      'Bids that were not written to the shared log: its queue was full, or Redis did not respond',
      () => counts.dropped,
    )
    counter('bidweir_redis_failures_total', 'Commands that Redis refused', () => counts.failed)
  }
  if (sink === null) return
  const { counts } = sink
  counter(
    'bidweir_decision_log_lines_total',
    'Lines written to the decision log',
    () => counts.written,
  )
  counter(
    'bidweir_decision_log_dropped_total',
    'Lines dropped because the queue was full',
    () => counts.dropped,
  )
  counter(
    'bidweir_decision_log_failures_total',
    'Lines that could not be written to disk',
    () => counts.failed,
  )
}
