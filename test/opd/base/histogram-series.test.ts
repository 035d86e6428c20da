/** Histograms of a scrape: the busiest suppliers have their own, nothing falls, and nothing is lost. */
import t from 'tap'
import { classicBuckets } from '../../../opd/base/buckets.ts'
import { HistogramSeries } from '../../../opd/base/histogram-series.ts'
import { others } from '../../../opd/base/metrics.ts'

const bounds = [1, 2]
const made = () => ({ counts: new Float64Array(bounds.length + 1), sum: 0 })

function world(names: string[], most: number) {
  const all = new Map(names.map((name) => [name, made()]))
  const series = new HistogramSeries('x', classicBuckets(bounds), most)
  const rows = () =>
    [...all].map(([ssp, histogram]) => [{ ssp }, histogram] as [{ ssp: string }, typeof histogram])
  return {
    observe(name: string, times: number) {
      const histogram = all.get(name)!
      histogram.counts[1]! += times
      histogram.sum += 1.5 * times
    },
    /** Counts by label. */
    scrape() {
      const counts: Record<string, number> = {}
      for (const sample of series.samples(rows(), { ssp: others }))
        if (sample?.metricName === 'x_count') counts[String(sample.labels['ssp'])] = sample.value
      return counts
    },
    text: () =>
      [...series.samples(rows(), { ssp: others })]
        .filter((sample) => sample !== null)
        .map(({ metricName, labels, value }) => `${metricName} ${labels['le'] ?? ''} ${value}`),
  }
}

t.test('buckets are cumulative, and one that has seen nothing has no series', (t) => {
  const { observe, text } = world(['a', 'idle'], 10)
  observe('a', 3)
  t.same(text(), ['x_bucket 1 0', 'x_bucket 2 3', 'x_bucket +Inf 3', 'x_sum  4.5', 'x_count  3'])
  t.end()
})

t.test('suppliers beyond the busiest share one histogram, which never falls', (t) => {
  const { observe, scrape } = world(['a', 'b', 'c'], 1)
  observe('a', 10)
  observe('b', 4)
  observe('c', 1)
  t.same(scrape(), { a: 10, [others]: 5 })
  observe('b', 8)
  t.same(scrape(), { a: 10, [others]: 13 }, '12 is not a quarter more than 10')
  observe('b', 8)
  observe('a', 1)
  t.same(scrape(), { b: 20, [others]: 14 }, 'what a has seen since counts here, its past does not')
  observe('a', 2)
  t.same(scrape(), { b: 20, [others]: 16 })
  t.end()
})
