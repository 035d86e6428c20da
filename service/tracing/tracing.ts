/**
 * Spans of bids and notices. Whether a request is traced is decided when it begins, because the supplier is sent the parent of
 * its own span; the spans are made when it ends.
 */
import type { FinishedNotice, NoticeSpan, NoticeTracer } from '../../admin/impressions/route.ts'
import type { Log } from '../../opd/base/log.ts'
import { requestIdOf } from '../../opd/protobuf/request-id.ts'
import { shortId } from '../../opd/shared/short-id.ts'
import type { BidSpan, BidTracer, FinishedBid } from '../../proxy/tracer.ts'
import type { TracingConfig } from './config.ts'
import { type SpanCounts, SpanExporter } from './exporter.ts'
import { type Attributes, resourceOf, type Span } from './otlp.ts'
import { newSpanId, newTraceId, traceParentOf, withParent } from './trace-context.ts'

/** Requests a second of each process that are traced because their callers trace them: callers are not trusted. */
const maxFollowed = 100

/** Milliseconds since the epoch, of `performance.now()`. */
const epoch = (timestamp: number) => performance.timeOrigin + timestamp
const failed = new Set(['timeout', 'upstream_error', 'overload', 'unreadable'])

/** A span that has begun. */
interface Begun {
  traceId: string
  spanId: string
  parentId: string | null
}

/** Traces bids and notices, and exports their spans. It does nothing until it is configured. */
export class Tracing implements BidTracer, NoticeTracer {
  readonly counts: SpanCounts = { exported: 0, refused: 0, dropped: 0, limited: 0 }
  private readonly resource: Attributes
  private readonly log: Log
  private ratio = 0
  /** null: nothing is traced. */
  private exporter: SpanExporter | null = null
  private current = ''
  private second = 0
  private followed = 0

  /** @param worker number of the process */
  constructor(location: string, worker: number, log: Log) {
    this.resource = resourceOf(location, worker)
    this.log = log
  }

  /**
   * At the start and at each reload. Spans that wait are still exported to the former endpoint.
   *
   * @param config null: nothing is traced any more
   */
  configure(config: TracingConfig | null): void {
    this.ratio = config?.ratio ?? 0
    const { endpoint = '', headers = {} } = config ?? {}
    const text = JSON.stringify([endpoint, headers])
    if (text === this.current) return
    this.current = text
    void this.exporter?.close()
    this.exporter =
      config === null ? null : new SpanExporter(config, this.resource, this.counts, this.log)
  }

  /** The fields of a request that is traced; null: it is not. */
  private sampled(fields: readonly string[]): Begun | null {
    const parent = traceParentOf(fields)
    if (parent === null)
      return this.ratio > 0 && Math.random() < this.ratio
        ? { traceId: newTraceId(), spanId: newSpanId(), parentId: null }
        : null
    if (!parent.sampled || !this.follows()) return null
    return { traceId: parent.traceId, spanId: newSpanId(), parentId: parent.spanId }
  }

  private follows(): boolean {
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.second) {
      this.second = second
      this.followed = 0
    }
    if (++this.followed <= maxFollowed) return true
    this.counts.limited++
    return false
  }

  begin(fields: readonly string[]): BidSpan | null {
    if (this.exporter === null) return null
    const begun = this.sampled(fields)
    if (begun === null) return null
    const upstream: Begun = {
      traceId: begun.traceId,
      spanId: newSpanId(),
      parentId: begun.spanId,
    }
    return {
      fields: withParent(fields, upstream, begun.parentId !== null),
      end: (bid) => {
        this.exporter?.addSpan(bidSpan(begun, bid))
        const sent = upstreamSpan(upstream, bid)
        if (sent !== null) this.exporter?.addSpan(sent)
      },
    }
  }

  beginNotice(fields: readonly string[]): NoticeSpan | null {
    const begun = this.exporter === null ? null : this.sampled(fields)
    if (begun === null) return null
    return { end: (notice) => this.exporter?.addSpan(noticeSpan(begun, notice)) }
  }

  /** Exports what waits, for at most two seconds. */
  async close(): Promise<void> {
    await this.exporter?.close()
    this.exporter = null
  }
}

function bidSpan(
  begun: Begun,
  { ssp, request, outcome, status, arrived, ended }: FinishedBid,
): Span {
  const id = request === null ? undefined : requestIdOf(request)
  return {
    ...{ ...begun, name: 'POST /bid/{ssp}', kind: 'server' },
    ...{ start: epoch(arrived), end: epoch(ended) },
    attributes: {
      'http.request.method': 'POST',
      'http.route': '/bid/{ssp}',
      'bidweir.ssp': ssp,
      'bidweir.outcome': outcome,
      ...(status === null ? {} : { 'http.response.status_code': status }),
      ...(id === undefined ? {} : { 'bidweir.request_id': id }),
    },
    error: failed.has(outcome) ? outcome : null,
  }
}

/** null: the request was not sent. */
function upstreamSpan(begun: Begun, { upstream, outcome }: FinishedBid): Span | null {
  if (upstream === null) return null
  const { url, sentAt, durationMs } = upstream
  return {
    ...{ ...begun, name: 'POST', kind: 'client' },
    ...{ start: epoch(sentAt), end: epoch(sentAt + durationMs) },
    attributes: { 'http.request.method': 'POST', 'url.full': url.origin + url.pathname },
    error: outcome === 'timeout' || outcome === 'upstream_error' ? outcome : null,
  }
}

function noticeSpan(begun: Begun, notice: FinishedNotice): Span {
  const { path, arrived, ended, code, status, by, bidId } = notice
  return {
    ...{ ...begun, name: `GET ${path}`, kind: 'server' },
    ...{ start: epoch(arrived), end: epoch(ended) },
    attributes: {
      'http.request.method': 'GET',
      'http.route': path,
      'http.response.status_code': code,
      ...(status === null ? {} : { 'bidweir.notice.status': status }),
      ...(by === null ? {} : { 'bidweir.notice.attribution': by }),
      ...(bidId === null ? {} : { 'bidweir.bid_id': shortId(bidId) }),
    },
    error: code >= 500 ? String(code) : null,
  }
}
