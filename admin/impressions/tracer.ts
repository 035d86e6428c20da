/** Traces of notices. */
import type { FastifyInstance, FastifyRequest } from 'fastify'

/** Times are `performance.now()`. */
export interface FinishedNotice {
  path: string
  arrived: number
  ended: number
  /** The status of the response. */
  code: number
  /** The status of the notice, and by what it was attributed; null: refused, or by nothing. */
  status: string | null
  by: string | null
  bidId: string | null
}

export interface NoticeSpan {
  end(notice: FinishedNotice): void
}

export interface NoticeTracer {
  /** `fields`: a flat list of names and values, as received. null: the notice is not sampled. */
  beginNotice(fields: readonly string[]): NoticeSpan | null
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : null)

/** Traces the routes of this plugin. Of the query only the bid id is recorded. */
export function traceNotices(app: FastifyInstance, tracer: NoticeTracer): void {
  const spans = new WeakMap<FastifyRequest, { span: NoticeSpan; arrived: number }>()
  app.addHook('onRequest', async (request) => {
    const span = tracer.beginNotice(request.raw.rawHeaders)
    if (span !== null) spans.set(request, { span, arrived: performance.now() })
  })
  app.addHook('onSend', async (request, reply, payload) => {
    const begun = spans.get(request)
    if (begun === undefined) return payload
    const accepted = reply.statusCode === 200 && typeof payload === 'string'
    const { status, by } = (accepted ? JSON.parse(payload) : {}) as Record<string, unknown>
    begun.span.end({
      path: request.routeOptions.url ?? '',
      arrived: begun.arrived,
      ended: performance.now(),
      code: reply.statusCode,
      status: textOf(status),
      by: textOf(by),
      bidId: textOf((request.query as Record<string, unknown>)['bid_id']),
    })
    return payload
  })
}
