/**
 * What `/metrics` returns, rendered in slices. prom-client renders a metric at once, and the publishers of a hundred
 * suppliers, 20,000 series, block the event loop for 30 ms. Here a scrape yields every millisecond.
 */
import { Registry } from 'prom-client'
import type { RegisteredMetric } from '../../opd/base/metrics.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { createSlices, type Slices } from '../../opd/base/slices.ts'
import { protobufType, ScrapeProtobuf } from './exposition-protobuf.ts'
import { ScrapeText, type ScrapeWriter } from './exposition-text.ts'

/** Samples between two checks of the clock. */
const samplesPerCheck = 64

const formats = {
  text: { type: Registry.PROMETHEUS_CONTENT_TYPE, writer: () => new ScrapeText() },
  protobuf: { type: protobufType, writer: () => new ScrapeProtobuf() },
} as const satisfies Record<string, { type: string; writer: () => ScrapeWriter }>
export type ScrapeFormat = keyof typeof formats

/** The content type of a format. */
export const contentTypeOf = (format: ScrapeFormat): string => formats[format].type

const textRange = /^(text\/plain|text\/\*|\*\/\*)$/

/** The format that an Accept header prefers, by the weights of its ranges (RFC 9110 12.5.1); text if it wants neither. */
export function preferredFormat(accept = ''): ScrapeFormat {
  const weights = { text: 0, protobuf: 0 }
  for (const range of accept.toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim())
    const keys = new Map(parameters.map((part) => part.split('=', 2) as [string, string]))
    const weight = Number(keys.get('q') ?? 1)
    const isOurs =
      type === 'application/vnd.google.protobuf' &&
      keys.get('proto') === 'io.prometheus.client.metricfamily' &&
      keys.get('encoding') === 'delimited'
    if (isOurs) weights.protobuf = Math.max(weights.protobuf, weight)
    else if (textRange.test(type)) weights.text = Math.max(weights.text, weight)
  }
  return weights.protobuf > weights.text ? 'protobuf' : 'text'
}

async function render(
  metrics: readonly RegisteredMetric[],
  writers: readonly ScrapeWriter[],
  slices: Slices,
): Promise<void> {
  for (const metric of metrics) {
    await slices.next()
    const samples = metric.samples?.() ?? (await metric.get()).values ?? []
    for (const writer of writers) writer.startFamily(metric)
    let until = samplesPerCheck
    for (const sample of samples) {
      if (sample !== null) for (const writer of writers) writer.addSample(sample)
      if (--until > 0) continue
      until = samplesPerCheck
      await slices.next()
    }
    for (const writer of writers) writer.endFamily()
  }
}

/**
 * One scrape at a time. Requests that arrive meanwhile share the next one, which has the formats of all of them. `prepare` is
 * called before each.
 */
export function exposition(
  metrics: () => readonly RegisteredMetric[],
  prepare?: () => Promise<void>,
  slicesOf = createSlices,
): (format?: ScrapeFormat) => Promise<Buffer> {
  let wanted = new Set<ScrapeFormat>()
  const run = oneAtATime(async () => {
    const writers = new Map([...wanted].map((format) => [format, formats[format].writer()]))
    wanted = new Set()
    await prepare?.()
    await render(metrics(), [...writers.values()], slicesOf())
    return new Map([...writers].map(([format, writer]) => [format, writer.wholeScrape()]))
  })
  return async (format = 'text') => {
    wanted.add(format)
    return (await run()).get(format)!
  }
}
