/** Metrics of a node with workers: those of its processes as one, and what the processes are. */
import type { Registry } from 'prom-client'
import {
  byLabel,
  counter,
  gauge,
  metricsOf,
  one,
  type RegisteredMetric,
  registerRows,
} from '../../opd/base/metrics.ts'
import type { ProxyCounters } from '../../proxy/proxy.ts'
import type { WorkerPool } from './pool.ts'
import { aggregated, isOfProcess } from './process-metrics.ts'

/**
 * The metrics of the first process, with the process metrics of all.
 *
 * @param registry the metrics of the first process
 * @param pool the workers
 * @param counters of the whole node: those of the workers are included
 * @returns `prepare` reads the metrics of the workers, and is called before each scrape
 */
export function nodeMetrics(
  registry: Registry,
  pool: WorkerPool,
  counters: ProxyCounters,
): { metrics: () => RegisteredMetric[]; prepare: () => Promise<void> } {
  let sums = new Map<string, RegisteredMetric>()
  /** The counters of this process include those of the workers. */
  function* requests(): Generator<[string, number]> {
    let ownRequests = 0
    for (const { requests } of counters.suppliers.values())
      for (const count of requests) ownRequests += count
    const workers = [...pool.requests()].sort(([one], [other]) => one - other)
    for (const [, count] of workers) ownRequests -= count
    yield ['0', ownRequests]
    for (const [index, count] of workers) yield [String(index), count]
  }
  registerRows(registry, [
    gauge('bidweir_workers', 'Processes of this node that serve bid traffic', () =>
      one(pool.count - pool.missing),
    ),
    counter(
      'bidweir_workers_replaced_total',
      'Worker processes that ended, or did not report for 5 s and were killed, and were replaced',
      () => one(pool.counts.ended),
    ),
    counter(
      'bidweir_worker_dropped_total',
      'Decisions that a worker could not hand over; their notices need a context',
      () => one(pool.counts.dropped),
    ),
    counter(
      'bidweir_worker_requests_total',
      'Bid requests by process; 0 is the first, which has the admin listener',
      () => byLabel('worker', requests()),
    ),
  ])
  return {
    metrics: () => metricsOf(registry).map((metric) => sums.get(metric.name) ?? metric),
    async prepare() {
      const ownMetrics = await Promise.all(
        metricsOf(registry)
          .filter(isOfProcess)
          .map((metric) => metric.get()),
      )
      await pool.scrape()
      const all = metricsOf(aggregated([ownMetrics, ...pool.metrics.all()]))
      sums = new Map(all.map((metric) => [metric.name, metric]))
    },
  }
}
