/**
 * The exposition format of Prometheus in Protocol Buffers: io.prometheus.client.MetricFamily messages, each after its length.
 * Scrapers ask for it to get native histograms, which the text formats do not have. A histogram that keeps one is written as
 * both, so that the scraper chooses (`always_scrape_classic_histograms`).
 */
import type { NativeHistogram } from '../../opd/base/buckets.ts'
import type { Labels, RegisteredMetric } from '../../opd/base/metrics.ts'
import { ProtobufWriter } from '../../opd/protobuf/writer.ts'
import type { ScrapedSample, ScrapeWriter } from './exposition-text.ts'

export const protobufType =
  'application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited'

/** MetricType, and the field of Metric that has its value. */
const kinds: Readonly<Record<string, { type: number; field: number }>> = {
  counter: { type: 0, field: 3 },
  gauge: { type: 1, field: 2 },
  summary: { type: 2, field: 4 },
  histogram: { type: 4, field: 7 },
}
const untyped = { type: 3, field: 5 }

/** Buckets without values between two spans: fewer are written as zeros, which takes less than a span. */
const longestGap = 2

/** Adds the positive buckets: spans of indexes, and the differences between successive counts. */
function addNative(histogram: ProtobufWriter, native: NativeHistogram): void {
  const { schema, zeroThreshold, zeroCount, first, counts } = native
  histogram.sint64(5, schema).double(6, zeroThreshold).uint64(7, zeroCount)
  const spans: { offset: number; length: number }[] = []
  const deltas: number[] = []
  let gap = first
  let before = 0
  const addCount = (count: number) => {
    deltas.push(count - before)
    before = count
  }
  for (const count of counts) {
    if (count === 0) {
      gap++
      continue
    }
    const span = spans.at(-1)
    if (span === undefined || gap > longestGap) spans.push({ offset: gap, length: 1 })
    else {
      for (let empty = 0; empty < gap; empty++) addCount(0)
      span.length += gap + 1
    }
    addCount(count)
    gap = 0
  }
  // A span without buckets says that the histogram is a native one.
  if (spans.length === 0) spans.push({ offset: 0, length: 0 })
  for (const { offset, length } of spans)
    histogram.message(12, new ProtobufWriter().sint64(1, offset).uint64(2, length))
  for (const delta of deltas) histogram.sint64(13, delta)
}

const boundOf = (text: string | number) =>
  text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text)

/** The samples of a histogram or of a summary with the same labels. */
class Series {
  readonly labels: [string, string | number][]
  private count = 0
  private sum = 0
  private readonly parts: [bound: number, value: number][] = []
  private native: NativeHistogram | null = null

  constructor(labels: [string, string | number][]) {
    this.labels = labels
  }

  /** @param bound `le` or `quantile` */
  addSample(name: string, { metricName, value, native }: ScrapedSample, bound?: string | number) {
    if (bound !== undefined) this.parts.push([boundOf(bound), value])
    else if (metricName === `${name}_sum`) this.sum = value
    else {
      this.count = value
      this.native = native ?? null
    }
  }

  summary(): ProtobufWriter {
    const summary = new ProtobufWriter().uint64(1, this.count).double(2, this.sum)
    for (const [quantile, value] of this.parts)
      summary.message(3, new ProtobufWriter().double(1, quantile).double(2, value))
    return summary
  }

  histogram(): ProtobufWriter {
    const histogram = new ProtobufWriter().uint64(1, this.count).double(2, this.sum)
    for (const [bound, value] of this.parts)
      histogram.message(3, new ProtobufWriter().uint64(1, value).double(2, bound))
    if (this.native !== null) addNative(histogram, this.native)
    return histogram
  }
}

function* labelsOf({ labels, sharedLabels }: ScrapedSample): Generator<[string, string | number]> {
  for (const part of [labels, sharedLabels] as (Labels | undefined)[])
    if (part !== undefined) yield* Object.entries(part)
}

const partLabels: Readonly<Record<string, string>> = { histogram: 'le', summary: 'quantile' }

/** Collects the families as messages. */
export class ScrapeProtobuf implements ScrapeWriter {
  private readonly messages: Buffer[] = []
  private metric: RegisteredMetric | null = null
  private family = new ProtobufWriter()
  private count = 0
  private series: Series | null = null
  private seriesKey = ''

  startFamily(metric: RegisteredMetric): void {
    const { name, help, type } = metric
    this.metric = metric
    this.count = 0
    this.family = new ProtobufWriter()
      .text(1, name)
      .text(2, help)
      .int32(3, (kinds[type] ?? untyped).type)
  }

  addSample(sample: ScrapedSample): void {
    const { name, type } = this.metric!
    const partLabel = partLabels[type]
    if (partLabel === undefined) {
      const { field } = kinds[type] ?? untyped
      this.addMetric(labelsOf(sample), field, new ProtobufWriter().double(1, sample.value))
      return
    }
    const all = [...labelsOf(sample)]
    const labels = all.filter(([label]) => label !== partLabel)
    const key = JSON.stringify(labels)
    if (this.series === null || this.seriesKey !== key) {
      this.endSeries()
      this.series = new Series(labels)
      this.seriesKey = key
    }
    this.series.addSample(name, sample, all.find(([label]) => label === partLabel)?.[1])
  }

  endFamily(): void {
    this.endSeries()
    if (this.count === 0) return
    const bytes = this.family.bytes()
    this.messages.push(ProtobufWriter.varint(bytes.length), bytes)
  }

  wholeScrape(): Buffer {
    return Buffer.concat(this.messages)
  }

  private endSeries(): void {
    const { series, metric } = this
    if (series === null) return
    this.series = null
    const isHistogram = metric!.type === 'histogram'
    const value = isHistogram ? series.histogram() : series.summary()
    this.addMetric(series.labels, kinds[metric!.type]!.field, value)
  }

  private addMetric(
    labels: Iterable<[string, string | number]>,
    field: number,
    value: ProtobufWriter,
  ): void {
    const metric = new ProtobufWriter()
    for (const [name, text] of labels)
      metric.message(1, new ProtobufWriter().text(1, name).text(2, String(text)))
    this.family.message(4, metric.message(field, value))
    this.count++
  }
}
