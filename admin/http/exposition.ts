/**
 * The text of `/metrics`, rendered in slices. prom-client renders a metric at once, and the publishers of a hundred
 * suppliers, 20,000 series, block the event loop for 30 ms. Here a scrape yields every millisecond.
 */
import { Registry } from 'prom-client'
import type { Labels, RegisteredMetric, Sample } from '../../opd/base/metrics.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { createSlices, type Slices } from '../../opd/base/slices.ts'

export const contentType = Registry.PROMETHEUS_CONTENT_TYPE

/** Samples between two checks of the clock. */
const samplesPerCheck = 64
const chunkLength = 64 * 1024

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' }
const escaped = (text: string) => text.replace(/[\\\n"]/g, (found) => escapes[found]!)
const helpText = (text: string) => text.replace(/[\\\n]/g, (found) => escapes[found]!)

const valueText = (value: number) =>
  Number.isFinite(value) ? String(value) : Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'

function line(name: string, sample: Sample & { sharedLabels?: Labels }): string {
  const { labels, sharedLabels, value, metricName = name } = sample
  let inside = ''
  for (const each of [labels, sharedLabels])
    for (const key in each)
      inside += `${inside === '' ? '' : ','}${key}="${escaped(String(each[key]))}"`
  return `${metricName}${inside === '' ? '' : `{${inside}}`} ${valueText(value)}\n`
}

/** Collects text as byte chunks. */
class Pages {
  private readonly chunks: Buffer[] = []
  private text = ''

  addText(text: string): void {
    this.text += text
    if (this.text.length < chunkLength) return
    this.chunks.push(Buffer.from(this.text))
    this.text = ''
  }

  wholeText(): Buffer {
    return Buffer.concat([...this.chunks, Buffer.from(this.text)])
  }
}

async function render(metrics: readonly RegisteredMetric[], slices: Slices): Promise<Buffer> {
  const pages = new Pages()
  for (const metric of metrics) {
    const { name, help, type } = metric
    await slices.next()
    const samples = metric.samples?.() ?? (await metric.get()).values ?? []
    pages.addText(`# HELP ${name} ${helpText(help)}\n# TYPE ${name} ${type}\n`)
    let until = samplesPerCheck
    for (const sample of samples) {
      if (sample !== null) pages.addText(line(name, sample))
      if (--until > 0) continue
      until = samplesPerCheck
      await slices.next()
    }
    pages.addText('\n')
  }
  return pages.wholeText()
}

/** One scrape at a time. Requests that arrive meanwhile share the next one. `prepare` is called before each. */
export const exposition = (
  metrics: () => readonly RegisteredMetric[],
  prepare?: () => Promise<void>,
  slicesOf = createSlices,
): (() => Promise<Buffer>) =>
  oneAtATime(async () => {
    await prepare?.()
    return render(metrics(), slicesOf())
  })
