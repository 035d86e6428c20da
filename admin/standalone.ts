/** `POST /opd/<ssp>_yesbid`: prices without the service in the bid's way (SERVICE 4.6, CONTRACT 7). */
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  preHandlerAsyncHookHandler,
} from 'fastify'
import type { Engine } from '../opd/engine.ts'
import { problem } from './problem.ts'

export interface StandaloneDeps {
  engine: Engine
  /** Verifies the token; refuses without one. */
  bearer: preHandlerAsyncHookHandler
  /** Whose supplier it is; absent: every caller sees every supplier. */
  account?: ((supplier: string) => string | undefined) | undefined
  /** Bytes; more is 413. */
  maxBodyBytes?: number
}

const suffix = '_yesbid'
const defaultBodyBytes = 1024 * 1024

const titles = {
  400: ['malformed', 'The body is not a bid response that can be priced'],
  403: ['opd_disabled', 'OPD is not enabled for the integration'],
  404: ['unknown_supplier', 'No such integration'],
} as const

export function standalone(deps: StandaloneDeps): FastifyPluginAsync {
  const { engine, bearer, account, maxBodyBytes = defaultBodyBytes } = deps

  function seesIt(request: FastifyRequest, supplier: string): boolean {
    if (account === undefined) return true
    const { caller } = request
    return caller?.account === '*' || account(supplier) === caller?.account
  }

  function refuse(
    reply: FastifyReply,
    status: 400 | 403 | 404,
    faults: { pointer: string; detail: string }[] = [],
  ) {
    const [code, title] = titles[status]
    return problem(reply, status, code, title, faults)
  }

  return async (app) => {
    // the engine reads the bytes itself: nothing is parsed twice
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

    app.post<{ Params: { name: string } }>(
      '/opd/:name',
      { bodyLimit: maxBodyBytes, onRequest: bearer, logLevel: 'warn' },
      async (request, reply) => {
        const { name } = request.params
        const supplier = name.endsWith(suffix) ? name.slice(0, -suffix.length) : ''
        if (supplier === '' || !seesIt(request, supplier)) return refuse(reply, 404)
        const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
        const answer = engine.standalone(supplier, body)
        if (!answer.ok) return refuse(reply, answer.status, answer.faults)
        return reply.header('cache-control', 'no-store').send(answer.entries)
      },
    )
    app.route({
      method: ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
      url: '/opd/:name',
      onRequest: async (_request, reply) =>
        problem(reply.header('allow', 'POST'), 405, 'method_not_allowed', 'Only POST'),
      handler: async (_request, reply) => reply,
    })
  }
}
