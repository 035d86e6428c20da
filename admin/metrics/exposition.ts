/**
 * The text of `/metrics`, written in slices: prom-client renders a metric in one go, and the publishers of a hundred
 * suppliers, 20,000 series, hold the event loop for 30 ms. Here a scrape gives way every millisecond.
 */
import type { Registry } from 'prom-client'
import { oneAtATime } from '../../opd/shared/one-at-a-time.ts'
import { createSlices, type Slices } from '../../opd/shared/slices.ts'
import type { Labels, Sample } from './samples.ts'

/** What the registry keeps: its own metrics, and those whose samples are made one by one (`samples`). */
interface Metric {
  name: string
  help: string
  type: string
  get(): Promise<{ values?: (Sample & { sharedLabels?: Labels })[]; type: string | number }>
  samples?: () => Iterable<Sample | null>
}

/** Samples between two looks at the clock. */
const samplesPerLook = 64
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

/** Text that grows to chunks of bytes. */
class Pages {
  private readonly chunks: Buffer[] = []
  private text = ''

  add(text: string): void {
    this.text += text
    if (this.text.length < chunkLength) return
    this.chunks.push(Buffer.from(this.text))
    this.text = ''
  }

  whole(): Buffer {
    return Buffer.concat([...this.chunks, Buffer.from(this.text)])
  }
}

async function render(metrics: readonly Metric[], slices: Slices): Promise<Buffer> {
  const pages = new Pages()
  for (const metric of metrics) {
    const { name, help, type } = metric
    await slices.next()
    const samples = metric.samples?.() ?? (await metric.get()).values ?? []
    pages.add(`# HELP ${name} ${helpText(help)}\n# TYPE ${name} ${type}\n`)
    let until = samplesPerLook
    for (const sample of samples) {
      if (sample !== null) pages.add(line(name, sample))
      if (--until > 0) continue
      until = samplesPerLook
      await slices.next()
    }
    pages.add('\n')
  }
  return pages.whole()
}

/** One scrape at a time; those that come meanwhile share the next one. */
export const exposition = (registry: Registry, slicesOf = createSlices): (() => Promise<Buffer>) =>
  oneAtATime(() => render(registry.getMetricsAsArray() as unknown as Metric[], slicesOf()))
