/** What waits, what was dropped and what failed beside the paths of bids and notices: read at the scrape. */
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
  /** One that only the part counts: what it has counted is what the scrape shows. */
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
  gauge('bidweir_ledger_waiting', 'Notices that wait for their commit', () => ledger.waiting)
  counter(
    'bidweir_ledger_replaced_total',
    'Unattributed rows whose wins a later notice attributed',
    () => ledger.replaced,
  )
  gauge('bidweir_live_nodes', 'Nodes that share the allotments of this location', nodes)
  new Counter({
    name: 'bidweir_engine_faults_total',
    help: 'Exceptions in the price engine, by where they came; each cost no more than an optimisation',
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
      'Bids that never came into the shared log: no room, or no answer',
      () => counts.dropped,
    )
    counter('bidweir_redis_failures_total', 'Commands that Redis did not take', () => counts.failed)
  }
  if (sink === null) return
  const { counts } = sink
  counter('bidweir_decision_log_lines_total', 'Lines written', () => counts.written)
  counter('bidweir_decision_log_dropped_total', 'Lines without room', () => counts.dropped)
  counter('bidweir_decision_log_failures_total', 'Lines the disk did not take', () => counts.failed)
}
