/** Counters of a worker in the first process: increments of what has changed, also of counters that come later. */
import t from 'tap'
import { EngineStats } from '../../../opd/pricing/stats.ts'
import { LargestLag } from '../../../proxy/exposition.ts'
import { SupplierMetrics, VariantMetrics } from '../../../proxy/metrics.ts'
import { addCounts, countsTaker } from '../../../service/workers/counters.ts'

function processOf() {
  const metrics = new SupplierMetrics()
  const proxy = {
    suppliers: new Map([['acme', metrics]]),
    metricsOf: () => metrics,
    closed: new Map<string, number>(),
    logged: new Map<string, number>(),
    decoder: { bytes: 0 },
    largestLag: new LargestLag(),
  }
  return { metrics, proxy, stats: new EngineStats() }
}

t.test('the first process counts what its workers count', async (t) => {
  const [worker, other, first] = [processOf(), processOf(), processOf()]
  const reports = [worker, other].map(({ stats, proxy }) => countsTaker(stats, proxy))
  const variants = () => ({ main: new VariantMetrics(), canary: new VariantMetrics() })
  for (let round = 1; round <= 3; round++) {
    for (const { metrics, stats } of [worker, other]) {
      metrics.finished('answer', 1000 * round, 500)
      stats.supplierStats('acme').modes.revenue.countPriced('treated', 2, 1.5)
      // A canary that is configured later; the first process has it sooner or later than a worker.
      if (round > 1) metrics.variants ??= variants()
      metrics.variants?.canary.finished('answer', round)
    }
    if (round > 1) first.metrics.variants ??= variants()
    for (const report of reports) addCounts(structuredClone(report()), first.stats, first.proxy)
    const { metrics, stats } = first
    t.equal(metrics.total, 2 * round)
    t.same(
      metrics.duration.classic,
      worker.metrics.duration.classic.map((count) => 2 * count),
    )
    t.equal(metrics.duration.sum, 2 * worker.metrics.duration.sum)
    t.same(
      metrics.variants?.canary.upstream.classic,
      worker.metrics.variants?.canary.upstream.classic.map((count) => 2 * count),
    )
    t.match(stats.supplierStats('acme').modes.revenue, { inSum: 4 * round, outSum: 3 * round })
  }
  const idle = reports[0]!()
  t.same(idle.suppliers, [], 'nothing has changed')
})
