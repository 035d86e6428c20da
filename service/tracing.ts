/**
 * OpenTelemetry spans of bids and notices. The SDK is the operator's: it is registered before the service starts, by
 * `--import`. A span is made when its request ends, so that nothing is stored meanwhile.
 */
import {
  ProxyTracerProvider,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  trace,
} from '@opentelemetry/api'
import { programVersion } from '../admin/http/version.ts'
import type { FinishedNotice } from '../admin/impressions/tracer.ts'
import type { Log } from '../opd/base/log.ts'
import { requestIdOf } from '../opd/openrtb/request.ts'
import { shortId } from '../opd/shared/short-id.ts'
import type { FinishedBid } from '../proxy/tracer.ts'

const fieldsGetter: TextMapGetter<readonly string[]> = {
  keys: (fields) => fields.filter((_, at) => at % 2 === 0),
  get(fields, name) {
    for (let at = 0; at < fields.length; at += 2)
      if (fields[at]!.toLowerCase() === name) return fields[at + 1]
    return undefined
  },
}

/** Milliseconds since the epoch, of `performance.now()`. */
const epoch = (at: number) => performance.timeOrigin + at
const failed = new Set(['timeout', 'upstream_error', 'overload', 'unreadable'])

/** Optional in the API: the method of the SDK's provider. */
interface Flushing {
  getDelegate?(): Flushing
  forceFlush?(): Promise<void>
}

/** null: no SDK is registered. */
export function createTracing(log: Log) {
  const provider = trace.getTracerProvider()
  if (provider instanceof ProxyTracerProvider && provider.getDelegateTracer('') === undefined)
    return null
  const tracer = trace.getTracer('bidweir', programVersion())

  function begin(route: string, fields: readonly string[], arrived: number, ssp?: string) {
    const parent = propagation.extract(ROOT_CONTEXT, fields, fieldsGetter)
    const [method] = route.split(' ')
    const attributes = {
      'http.request.method': method!,
      'http.route': route.slice(method!.length + 1),
    }
    const own = ssp === undefined ? attributes : { ...attributes, 'bidweir.ssp': ssp }
    const options = { kind: SpanKind.SERVER, startTime: epoch(arrived), attributes: own }
    return { parent, span: tracer.startSpan(route, options, parent) }
  }

  function describe(span: Span, bid: FinishedBid): void {
    const { request, outcome, status } = bid
    span.setAttribute('bidweir.outcome', outcome)
    if (status !== null) span.setAttribute('http.response.status_code', status)
    const id = request === null ? undefined : requestIdOf(request)
    if (id !== undefined) span.setAttribute('bidweir.request_id', id)
    if (failed.has(outcome)) span.setStatus({ code: SpanStatusCode.ERROR, message: outcome })
  }

  function traceBid(bid: FinishedBid): void {
    const { ssp, fields, arrived, ended, upstream } = bid
    const { parent, span } = begin('POST /bid/{ssp}', fields, arrived, ssp)
    if (span.isRecording()) {
      describe(span, bid)
      if (upstream !== null) {
        const { url, sentAt, durationMs } = upstream
        const attributes = { 'http.request.method': 'POST', 'url.full': url.origin + url.pathname }
        const options = { kind: SpanKind.CLIENT, startTime: epoch(sentAt), attributes }
        const context = trace.setSpan(parent, span)
        tracer.startSpan('POST', options, context).end(epoch(sentAt + durationMs))
      }
    }
    span.end(epoch(ended))
  }

  function traceNotice(notice: FinishedNotice): void {
    const { path, fields, arrived, ended, code, status, by, bidId } = notice
    const { span } = begin(`GET ${path}`, fields, arrived)
    span.setAttribute('http.response.status_code', code)
    if (status !== null) span.setAttribute('bidweir.notice.status', status)
    if (by !== null) span.setAttribute('bidweir.notice.attribution', by)
    if (bidId !== null) span.setAttribute('bidweir.bid_id', shortId(bidId))
    if (code >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end(epoch(ended))
  }

  let logged = false
  /** An error of the SDK costs the span, never the request. */
  const guarded =
    <T>(record: (of: T) => void) =>
    (of: T) => {
      try {
        record(of)
      } catch (error) {
        if (!logged) log.error({ err: (error as Error).message }, 'spans cannot be recorded')
        logged = true
      }
    }

  return {
    bidFinished: guarded(traceBid),
    noticeFinished: guarded(traceNotice),
    /** Exports what the SDK has buffered. */
    async flush(): Promise<void> {
      const sdk = (provider as Flushing).getDelegate?.() ?? (provider as Flushing)
      await sdk
        .forceFlush?.()
        .catch((error: Error) =>
          log.error({ err: error.message }, 'the last spans were not exported'),
        )
    },
  }
}
