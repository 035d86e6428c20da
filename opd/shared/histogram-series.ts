/**
 * Histograms by supplier for a scrape: the busiest have series of their own, the rest share one, so that thousands of
 * suppliers stay within what a scrape may weigh. One that has seen nothing has no series.
 */

export interface Histogram {
  /** One count a bucket, the last above all bounds; not cumulative. */
  readonly counts: Float64Array
  readonly sum: number
}

type Labels = Record<string, string | number>

export interface HistogramSample {
  value: number
  labels: Labels
  metricName: string
}

interface Row {
  labels: Labels
  of: Histogram
  total: number
}

/** Histograms with series of their own. */
const mostOwn = 100
/** One that has its own series loses it to another that is busier by this factor only. */
const hold = 1.25
/** No supplier is called so: ids begin with a letter or a digit. */
export const others = '_other'

const totalOf = ({ counts }: Histogram) => {
  let total = 0
  for (let at = 0; at < counts.length; at++) total += counts[at]!
  return total
}

class Sums implements Histogram {
  readonly counts: Float64Array
  sum = 0

  constructor(buckets: number) {
    this.counts = new Float64Array(buckets)
  }

  /** Adds what `now` has more than `before`, which becomes `now`. */
  addNews(now: Histogram, before: Sums): void {
    for (let at = 0; at < this.counts.length; at++)
      this.counts[at]! += now.counts[at]! - before.counts[at]!
    this.sum += now.sum - before.sum
    before.take(now)
  }

  take({ counts, sum }: Histogram): void {
    this.counts.set(counts)
    this.sum = sum
  }
}

export class HistogramSeries {
  private readonly name: string
  private readonly bounds: readonly number[]
  private readonly most: number
  private own = new Set<Histogram>()
  /** As of the last scrape: what comes later counts under the label that the supplier has then. */
  private readonly seen = new WeakMap<Histogram, Sums>()
  private readonly rest: Sums

  constructor(name: string, bounds: readonly number[], most = mostOwn) {
    this.name = name
    this.bounds = bounds
    this.most = most
    this.rest = new Sums(bounds.length + 1)
  }

  /** null: no sample, an occasion to end a slice. */
  *samples(
    rows: Iterable<[Labels, Histogram]>,
    restLabels: Labels,
  ): Generator<HistogramSample | null> {
    const busy: Row[] = []
    for (const [labels, of] of rows) {
      const total = totalOf(of)
      if (total > 0) busy.push({ labels, of, total })
      yield null
    }
    this.choose(busy)
    for (const { of } of busy) {
      this.look(of)
      yield null
    }
    for (const { labels, of } of busy)
      if (this.own.has(of)) yield* this.lines(labels, of.counts, of.sum)
    if (totalOf(this.rest) > 0) yield* this.lines(restLabels, this.rest.counts, this.rest.sum)
  }

  private choose(busy: readonly Row[]): void {
    if (busy.length <= this.most) {
      this.own = new Set(busy.map(({ of }) => of))
      return
    }
    const ranked = busy
      .map(({ of, total }) => ({ of, rank: this.own.has(of) ? total * hold : total }))
      .sort((one, other) => other.rank - one.rank)
    this.own = new Set(ranked.slice(0, this.most).map(({ of }) => of))
  }

  private look(of: Histogram): void {
    let seen = this.seen.get(of)
    if (seen === undefined) {
      seen = new Sums(of.counts.length)
      this.seen.set(of, seen)
    }
    if (this.own.has(of)) seen.take(of)
    else this.rest.addNews(of, seen)
  }

  private *lines(labels: Labels, counts: Float64Array, sum: number): Generator<HistogramSample> {
    const { name, bounds } = this
    let total = 0
    for (let at = 0; at < counts.length; at++) {
      total += counts[at]!
      const le = bounds[at] ?? '+Inf'
      yield { value: total, labels: { ...labels, le }, metricName: `${name}_bucket` }
    }
    yield { value: sum, labels, metricName: `${name}_sum` }
    yield { value: total, labels, metricName: `${name}_count` }
  }
}
