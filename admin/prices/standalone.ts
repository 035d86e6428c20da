/** `POST /opd/<ssp>_yesbid`: prices bids that do not pass through the proxy (SERVICE 4.6, CONTRACT 7). */
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  preHandlerAsyncHookHandler,
} from 'fastify'
import type { Engine, StandaloneEntry } from '../../opd/engine/types.ts'
import { canSee } from '../auth/roles.ts'
import { problem } from '../http/problem.ts'
import { rejectEncodedBody } from '../http/reject-encoded-body.ts'
import { alwaysReply } from '../http/reply-hook.ts'

export interface StandaloneDeps {
  engine: Engine
  /** Authentication by token. */
  bearer: preHandlerAsyncHookHandler
  /** The account of a supplier. Absent: every caller sees every supplier. */
  account?: ((supplier: string) => string | undefined) | undefined
  /** Bytes. A larger body is 413. */
  maxBodyBytes?: number
}

const suffix = '_yesbid'
const defaultBodyBytes = 1024 * 1024
/** Milliseconds of pricing between two yields to the event loop. */
const slice = 2

const supplierOf = (name: string) => (name.endsWith(suffix) ? name.slice(0, -suffix.length) : '')

const titles = {
  400: ['malformed', 'The body is not a valid bid response'],
  403: ['opd_disabled', 'OPD is not enabled for the integration'],
  404: ['unknown_supplier', 'No such integration'],
} as const

export function standalone(deps: StandaloneDeps): FastifyPluginAsync {
  const { engine, bearer, account, maxBodyBytes = defaultBodyBytes } = deps

  function isVisible(request: FastifyRequest, supplier: string): boolean {
    return account === undefined || canSee(request.caller!, account(supplier))
  }

  function refuse(
    reply: FastifyReply,
    status: 400 | 403 | 404,
    faults: { pointer: string; detail: string }[] = [],
  ) {
    const [code, title] = titles[status]
    return problem(reply, status, code, title, faults)
  }

  /**
   * The response text. Bids are priced while it is written, with a yield to the event loop after each slice; null if
   * the client has disconnected.
   */
  async function written(
    entries: Iterable<StandaloneEntry>,
    reply: FastifyReply,
  ): Promise<string | null> {
    let text = '['
    let began = performance.now()
    for (const { id, price, context } of entries) {
      // the price is decimal text and is never converted to a double
      text += `${text === '[' ? '' : ','}{"id":${JSON.stringify(id)},"modified_price":${price},"svc_opd":"${context}"}`
      if (performance.now() - began < slice) continue
      await new Promise((resolve) => setImmediate(resolve))
      if (reply.raw.destroyed) return null
      began = performance.now()
    }
    return `${text}]`
  }

  async function handle(
    request: FastifyRequest<{ Params: { name: string } }>,
    reply: FastifyReply,
  ): Promise<FastifyReply> {
    const supplier = supplierOf(request.params.name)
    if (supplier === '' || !isVisible(request, supplier)) return refuse(reply, 404)
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const answer = engine.priceStandalone(supplier, body)
    if (!answer.ok) return refuse(reply, answer.status, answer.faults)
    const text = await written(answer.entries, reply)
    return text === null ? reply.hijack() : reply.type('application/json').send(text)
  }

  return async (app) => {
    // the engine parses the bytes itself, so fastify must not
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(
      'application/json',
      { parseAs: 'buffer', bodyLimit: maxBodyBytes },
      (_request, body, done) => done(null, body),
    )
    app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) => {
      if (error.statusCode === 413)
        return problem(reply, 413, 'too_large', `The body is larger than ${maxBodyBytes} bytes`)
      if (error.statusCode === 415)
        return problem(reply, 415, 'unsupported_media_type', 'The body must be application/json')
      if (error.statusCode !== undefined && error.statusCode < 500)
        return problem(reply, error.statusCode, 'malformed', error.message)
      throw error
    })

    app.addHook('onRequest', async (_request, reply) => {
      reply.header('cache-control', 'no-store')
    })
    for (const url of ['/opd/:name', '/opd/:name/']) {
      app.post<{ Params: { name: string } }>(
        url,
        {
          bodyLimit: maxBodyBytes,
          onRequest: [bearer, rejectEncodedBody],
          logLevel: 'warn',
        },
        handle,
      )
      app.route<{ Params: { name: string } }>({
        method: app.supportedMethods.filter((method) => method !== 'POST'),
        url,
        onRequest: alwaysReply(({ params }, reply) =>
          supplierOf((params as { name: string }).name) === ''
            ? problem(reply, 404, 'not_found', 'No such path')
            : problem(
                reply.header('allow', 'POST'),
                405,
                'method_not_allowed',
                'Only POST is allowed',
              ),
        ),
        handler: async (_request, reply) => reply,
      })
    }
  }
}
