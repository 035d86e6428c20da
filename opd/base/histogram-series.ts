/**
 * Histograms by supplier for a scrape. The suppliers with the most observations have their own series, all others share
 * one: this bounds the size of a scrape with thousands of suppliers. A histogram without observations has no series.
 */

import type { Buckets } from './buckets.ts'
import { getOrAdd } from './get-or-add.ts'
import type { Labels, Sample } from './metrics.ts'

export interface Histogram {
  /** One count for each cell of its buckets, not cumulative. */
  readonly counts: Float64Array
  readonly sum: number
}

interface Row {
  labels: Labels
  histogram: Histogram
  total: number
}

/** Number of histograms with their own series. */
const maxOwn = 100
/** A histogram loses its own series only to one that has more observations by this factor. */
const hysteresis = 1.25

const totalOf = ({ counts }: Histogram) => {
  let total = 0
  for (let index = 0; index < counts.length; index++) total += counts[index]!
  return total
}

class HistogramSums implements Histogram {
  readonly counts: Float64Array
  sum = 0

  constructor(cells: number) {
    this.counts = new Float64Array(cells)
  }

  /** Adds the difference between `now` and `before`, and copies `now` to `before`. */
  addIncrease(now: Histogram, before: HistogramSums): void {
    for (let index = 0; index < this.counts.length; index++)
      this.counts[index]! += now.counts[index]! - before.counts[index]!
    this.sum += now.sum - before.sum
    before.copy(now)
  }

  copy({ counts, sum }: Histogram): void {
    this.counts.set(counts)
    this.sum = sum
  }
}

/** Histograms by label, of the busiest labels; all others share one. */
export class HistogramSeries {
  private readonly name: string
  private readonly buckets: Buckets
  private readonly maxOwn: number
  private separate = new Set<Histogram>()
  /** The counts at the last scrape. Later observations count under the supplier's label at the next scrape. */
  private readonly seen = new WeakMap<Histogram, HistogramSums>()
  private readonly rest: HistogramSums

  /**
   * @param name of the metric
   * @param buckets of all histograms
   * @param limit histograms that have their own series
   */
  constructor(name: string, buckets: Buckets, limit = maxOwn) {
    this.name = name
    this.buckets = buckets
    this.maxOwn = limit
    this.rest = new HistogramSums(buckets.cells)
  }

  /**
   * null: not a sample, but a point at which a slice may end.
   *
   * @param rows the same histograms at each scrape, with the labels of their own series
   * @param restLabels those of the series that the others share
   */
  *samples(rows: Iterable<[Labels, Histogram]>, restLabels: Labels): Generator<Sample | null> {
    const used: Row[] = []
    for (const [labels, histogram] of rows) {
      const total = totalOf(histogram)
      if (total > 0) used.push({ labels, histogram, total })
      yield null
    }
    this.chooseOwn(used)
    for (const { histogram } of used) {
      this.update(histogram)
      yield null
    }
    for (const { labels, histogram } of used)
      if (this.separate.has(histogram)) yield* this.lines(labels, histogram.counts, histogram.sum)
    if (totalOf(this.rest) > 0) yield* this.lines(restLabels, this.rest.counts, this.rest.sum)
  }

  private chooseOwn(used: readonly Row[]): void {
    if (used.length <= this.maxOwn) {
      this.separate = new Set(used.map(({ histogram }) => histogram))
      return
    }
    const ranked = used
      .map(({ histogram, total }) => ({
        histogram,
        rank: this.separate.has(histogram) ? total * hysteresis : total,
      }))
      .sort((one, other) => other.rank - one.rank)
    this.separate = new Set(ranked.slice(0, this.maxOwn).map(({ histogram }) => histogram))
  }

  private update(histogram: Histogram): void {
    const size = histogram.counts.length
    const seen = getOrAdd(this.seen, histogram, () => new HistogramSums(size))
    if (this.separate.has(histogram)) seen.copy(histogram)
    else this.rest.addIncrease(histogram, seen)
  }

  private *lines(labels: Labels, counts: Float64Array, sum: number): Generator<Sample> {
    const { name, buckets } = this
    const { bounds } = buckets
    let total = 0
    for (const [index, count] of buckets.classic(counts).entries()) {
      total += count
      const le = bounds[index] ?? '+Inf'
      yield { value: total, labels: { ...labels, le }, metricName: `${name}_bucket` }
    }
    yield { value: sum, labels, metricName: `${name}_sum` }
    const native = buckets.native(counts)
    const countSample = { value: total, labels, metricName: `${name}_count` }
    yield native === null ? countSample : { ...countSample, native }
  }
}
