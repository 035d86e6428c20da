/** Reports each notice to a tracer when its response is sent. */
import type { FastifyInstance, FastifyRequest } from 'fastify'

/** Times are `performance.now()`. */
export interface FinishedNotice {
  path: string
  /** A flat list of names and values, as received. */
  fields: readonly string[]
  arrived: number
  ended: number
  /** The status of the response. */
  code: number
  /** The status of the notice, and by what it was attributed; null: refused, or by nothing. */
  status: string | null
  by: string | null
  bidId: string | null
}

export interface NoticeTracer {
  noticeFinished(notice: FinishedNotice): void
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : null)

/** Traces the routes of this plugin. Of the query only the bid id is recorded. */
export function traceNotices(app: FastifyInstance, tracer: NoticeTracer): void {
  const arrivals = new WeakMap<FastifyRequest, number>()
  app.addHook('onRequest', async (request) => void arrivals.set(request, performance.now()))
  app.addHook('onSend', async (request, reply, payload) => {
    const ended = performance.now()
    const accepted = reply.statusCode === 200 && typeof payload === 'string'
    const { status, by } = (accepted ? JSON.parse(payload) : {}) as Record<string, unknown>
    tracer.noticeFinished({
      path: request.routeOptions.url ?? '',
      fields: request.raw.rawHeaders,
      arrived: arrivals.get(request) ?? ended,
      ended,
      code: reply.statusCode,
      status: textOf(status),
      by: textOf(by),
      bidId: textOf((request.query as Record<string, unknown>)['bid_id']),
    })
    return payload
  })
}
