/**
 * Sends spans to a collector, OTLP over HTTP. Spans wait in a bounded queue; one request is under way at a time. A collector that
 * is away is tried again, ever more seldom, with the same spans.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { request } from 'undici'
import { atMost } from '../../opd/base/at-most.ts'
import type { Log } from '../../opd/base/log.ts'
import type { TracingConfig } from './config.ts'
import { type Attributes, exportBody, type Span } from './otlp.ts'

/** What may become of a span. */
export const spanResults = ['exported', 'refused', 'dropped', 'limited'] as const
/** Spans by what became of them. `refused`: by the collector. `dropped`: too many waited. `limited`: callers trace too many. */
export type SpanCounts = Record<(typeof spanResults)[number], number>

/** Spans that wait, and those of one request, whose text takes about a millisecond to make. */
const maxWaiting = 4096
const maxBatch = 256
/** Milliseconds. */
const sendEvery = 1000
const timeout = 10_000
const firstPause = 1000
const longestPause = 30_000
const longestFlush = 2000
/** Statuses after which the same spans are sent again (OTLP 1.x, Failures). */
const temporary = new Set([429, 502, 503, 504])

const compress = promisify(gzip)

interface PartialSuccess {
  partialSuccess?: { rejectedSpans?: string | number }
}

export class SpanExporter {
  private readonly url: URL
  private readonly headers: Record<string, string>
  private readonly resource: Attributes
  private readonly counts: SpanCounts
  private readonly log: Log
  private readonly ended = new AbortController()
  private waiting: Span[] = []
  /** The requests until the queue is empty; null: none is under way. */
  private sending: Promise<void> | null = null
  private readonly timer: NodeJS.Timeout
  private failing = false

  constructor(config: TracingConfig, resource: Attributes, counts: SpanCounts, log: Log) {
    const { endpoint, headers } = config
    this.url = new URL(`${endpoint.replace(/\/+$/, '')}/v1/traces`)
    this.headers = {
      ...headers,
      'content-type': 'application/json',
      'content-encoding': 'gzip',
    }
    this.resource = resource
    this.counts = counts
    this.log = log
    this.timer = setInterval(() => this.start(), sendEvery).unref()
  }

  addSpan(span: Span): void {
    if (this.waiting.length >= maxWaiting) this.counts.dropped++
    else this.waiting.push(span)
  }

  private start(): void {
    if (this.sending !== null || this.waiting.length === 0) return
    this.sending = this.sendAll().finally(() => {
      this.sending = null
    })
  }

  private async sendAll(): Promise<void> {
    while (this.waiting.length > 0 && !this.ended.signal.aborted) {
      // Taken out of the queue when it is sent: until then it counts towards the limit.
      const batch = this.waiting.slice(0, maxBatch)
      await this.sendBatch(batch)
      this.waiting.splice(0, batch.length)
    }
  }

  /** Resolves when the collector has taken or refused the spans, or the exporter ends. */
  private async sendBatch(batch: readonly Span[]): Promise<void> {
    const body = await compress(exportBody(this.resource, batch))
    for (let wait = firstPause; ; wait = Math.min(2 * wait, longestPause)) {
      const again = await this.post(body, batch.length).catch((error: Error) => {
        this.failed(error.message)
        return 0
      })
      if (again === null) return
      const jitter = 0.5 + Math.random()
      await pause(Math.max(again, wait * jitter), null, {
        ref: false,
        signal: this.ended.signal,
      }).catch(() => {})
      if (this.ended.signal.aborted) {
        this.counts.dropped += batch.length
        return
      }
    }
  }

  /** null: it is done; otherwise the milliseconds after which the collector wants it again. */
  private async post(body: Buffer, spans: number): Promise<number | null> {
    const {
      statusCode,
      headers,
      body: response,
    } = await request(this.url, {
      method: 'POST',
      ...{ headers: this.headers, body, headersTimeout: timeout, bodyTimeout: timeout },
    })
    const text = await response.text()
    if (temporary.has(statusCode)) {
      this.failed(`status ${statusCode}`)
      return Number(headers['retry-after'] ?? 0) * 1000 || 0
    }
    if (statusCode >= 300) {
      this.counts.refused += spans
      this.failed(`status ${statusCode}: ${text.slice(0, 200)}`)
      return null
    }
    const rejected = rejectedIn(text)
    this.counts.refused += rejected
    this.counts.exported += spans - rejected
    if (rejected > 0) this.failed(`the collector rejected ${rejected} spans`)
    else this.failing = false
    return null
  }

  /** The first failure after a success is logged. */
  private failed(error: string): void {
    const { failing, log } = this
    this.failing = true
    if (!failing) log.warn({ endpoint: this.url.origin, err: error }, 'spans could not be exported')
  }

  /** Sends what waits, for at most two seconds. No span may be added afterwards. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    this.start()
    await atMost(longestFlush, this.sending ?? Promise.resolve())
    this.ended.abort()
  }
}

function rejectedIn(text: string): number {
  try {
    const { partialSuccess } = JSON.parse(text) as PartialSuccess
    return Number(partialSuccess?.rejectedSpans ?? 0)
  } catch {
    // Some collectors answer with an empty body.
    return 0
  }
}
