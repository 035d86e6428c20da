/** The text exposition format of Prometheus, and what the writers of all formats have in common. */
import type { Labels, RegisteredMetric, Sample } from '../../opd/base/metrics.ts'

const chunkLength = 64 * 1024

/** A sample; prom-client has some labels of a series apart. */
export type ScrapedSample = Sample & { sharedLabels?: Labels }

/** Collects the bytes of a scrape in one format. `endFamily` follows the samples of each family. */
export interface ScrapeWriter {
  startFamily(metric: RegisteredMetric): void
  addSample(sample: ScrapedSample): void
  endFamily(): void
  wholeScrape(): Buffer
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' }
const escaped = (text: string) => text.replace(/[\\\n"]/g, (found) => escapes[found]!)
const helpText = (text: string) => text.replace(/[\\\n]/g, (found) => escapes[found]!)

const valueText = (value: number) =>
  Number.isFinite(value) ? String(value) : Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'

function line(name: string, sample: ScrapedSample): string {
  const { labels, sharedLabels, value, metricName = name } = sample
  let inside = ''
  for (const set of [labels, sharedLabels])
    for (const key in set)
      inside += `${inside === '' ? '' : ','}${key}="${escaped(String(set[key]))}"`
  return `${metricName}${inside === '' ? '' : `{${inside}}`} ${valueText(value)}\n`
}

/** The text format, as chunks of bytes. */
export class ScrapeText implements ScrapeWriter {
  private readonly chunks: Buffer[] = []
  private text = ''
  private family = ''

  startFamily({ name, help, type }: RegisteredMetric): void {
    this.family = name
    this.addText(`# HELP ${name} ${helpText(help)}\n# TYPE ${name} ${type}\n`)
  }

  addSample(sample: ScrapedSample): void {
    this.addText(line(this.family, sample))
  }

  endFamily(): void {
    this.addText('\n')
  }

  wholeScrape(): Buffer {
    return Buffer.concat([...this.chunks, Buffer.from(this.text)])
  }

  private addText(text: string): void {
    this.text += text
    if (this.text.length < chunkLength) return
    this.chunks.push(Buffer.from(this.text))
    this.text = ''
  }
}
