/** Metrics of a node with workers: those of its processes as one, and what the processes are. */
import type { Metric, Registry } from 'prom-client'
import { byLabel, one, registerRows } from '../../opd/shared/metrics.ts'
import type { ProxyCounters } from '../../proxy/proxy.ts'
import type { WorkerPool } from './pool.ts'
import {
  aggregated,
  isOfProcess,
  type ProcessMetric,
  type ProcessMetrics,
} from './process-metrics.ts'

type Scraped = Pick<Registry, 'contentType' | 'getMetricsAsArray'>

/** The registry of the first process with the process metrics of all. `prepare` is called before each scrape. */
export function nodeRegistry(
  registry: Registry,
  pool: WorkerPool,
  counters: ProxyCounters,
): { registry: Scraped; prepare: () => Promise<void> } {
  let processes: Registry | null = null
  /** The counters of this process include those of the workers. */
  function* requests(): Generator<[string, number]> {
    let own = 0
    for (const { requests } of counters.suppliers.values())
      for (const count of requests) own += count
    const workers = [...pool.requests()].sort(([one], [other]) => one - other)
    for (const [, count] of workers) own -= count
    yield ['0', own]
    for (const [index, count] of workers) yield [String(index), count]
  }
  registerRows(registry, [
    [
      'bidweir_workers',
      'gauge',
      'Processes of this node that serve bid traffic',
      () => one(pool.count - pool.missing),
    ],
    [
      'bidweir_workers_replaced_total',
      'counter',
      'Worker processes that ended and were replaced',
      () => one(pool.counts.ended),
    ],
    [
      'bidweir_worker_dropped_total',
      'counter',
      'Decisions that a worker could not hand over; their notices need a context',
      () => one(pool.counts.dropped),
    ],
    [
      'bidweir_worker_requests_total',
      'counter',
      'Bid requests by process; 0 is the first, which has the admin listener',
      () => byLabel('worker', requests()),
    ],
  ])
  return {
    registry: {
      contentType: registry.contentType,
      getMetricsAsArray: () =>
        registry.getMetricsAsArray().map((metric) => {
          const { name } = metric as unknown as { name: string }
          const sum = isOfProcess({ name }) ? processes?.getSingleMetric(name) : undefined
          return (sum as Metric | undefined) ?? metric
        }) as ReturnType<Registry['getMetricsAsArray']>,
    },
    async prepare() {
      const names = (registry.getMetricsAsArray() as unknown as ProcessMetric[]).filter(isOfProcess)
      const own = await Promise.all(
        names.map(({ name }) => registry.getSingleMetric(name)!.get() as Promise<unknown>),
      )
      await pool.scrape()
      processes = aggregated([own as ProcessMetrics, ...pool.metrics.all()])
    },
  }
}
