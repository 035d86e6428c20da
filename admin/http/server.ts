/** The admin listener: everything but bid traffic. All errors are sent as problem documents. */

import { randomUUID } from 'node:crypto'
import { createServer, METHODS, type RequestListener, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import type { Log } from '../../opd/base/log.ts'
import { pipelined, refuseBytes } from '../../opd/base/pipelining.ts'
import { problemType } from '../../opd/base/problem-type.ts'
import { StoreError } from '../store/errors.ts'
import { drainBody, singularFields } from './hooks.ts'
import { serveDocument } from './openapi.ts'
import { BusyError, Problem, problem } from './problem.ts'
import type { ProblemCode } from './problems.ts'

/** Milliseconds. */
const headTimeout = 10_000
const idleTimeout = 75_000

type HeadError = readonly [status: number, title: string, code: string]

/** Responses to malformed heads, by Node's error code. */
const headErrors: Readonly<Record<string, HeadError>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large', 'too_large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'timeout'],
}
const malformed: HeadError = [400, 'Bad Request', 'malformed']

function documentOf([status, title, code]: HeadError, ...fields: string[]): string {
  const body = JSON.stringify({ type: problemType(code), title, status, code })
  return [
    `HTTP/1.1 ${status} ${title}`,
    ...fields,
    'Connection: close',
    'Content-Type: application/problem+json',
    'Cache-Control: no-store',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n')
}

/** The server below fastify sends pipelined responses in order, and problem documents for malformed heads. */
function createHttpServer(serve: RequestListener): Server {
  const server = createServer({
    headersTimeout: headTimeout,
    requestTimeout: headTimeout,
    keepAliveTimeout: idleTimeout,
    requireHostHeader: false,
    connectionsCheckingInterval: 1000,
    maxHeaderSize: 32 * 1024,
  })
  server.setTimeout(idleTimeout)
  pipelined(server, {
    serve,
    expectationFailed: documentOf([417, 'Expectation Failed', 'expectation']),
    noTunnel: documentOf([405, 'Method Not Allowed', 'method_not_allowed'], 'Allow: GET'),
    onReset() {},
  })
  return server
}

function onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET') return void socket.destroy()
  refuseBytes(socket, documentOf(headErrors[error.code ?? ''] ?? malformed))
}

/** Zod checks bodies. Without this, fastify loads its own schema compilers, which take a tenth of the CPU of a start. */
const noCompiler = (): never => {
  throw new Error('a route has a schema of fastify')
}

interface Route {
  pattern: RegExp
  methods: Set<string>
}

/** `:id` and `:id(…)` match one non-empty path segment, `*` matches the rest. */
const urlParts = /:\w+(?:\([^)]*\))?|\*|[^:*]+/g
const patternOf = (url: string) => {
  const pattern = url.replaceAll(urlParts, (part) =>
    part === '*' ? '.*' : part.startsWith(':') ? '[^/]+' : RegExp.escape(part),
  )
  return new RegExp(`^${pattern}$`)
}

/**
 * The problem of requests that match no route: 405 with `Allow` if another method exists for the path (RFC 9110 15.5.6), else
 * 404. Must be called before any plugin: it collects routes as they are registered.
 */
function unknownPaths(app: FastifyInstance) {
  const routes = new Map<string, Route>()
  app.addHook('onRoute', ({ method, url }) => {
    const route = routes.get(url) ?? { pattern: patternOf(url), methods: new Set() }
    routes.set(url, route)
    for (const name of [method].flat()) route.methods.add(name)
  })
  return ({ method, url }: FastifyRequest, reply: FastifyReply): Problem => {
    const path = url.split('?', 1)[0]!
    const allowed = new Set<string>()
    reply.header('cache-control', 'no-store')
    for (const { pattern, methods } of routes.values())
      if (pattern.test(path)) for (const method of methods) allowed.add(method)
    // if the method exists but the route did not match, for example because a name is too long, there is no such
    // resource
    if (allowed.size === 0 || allowed.has(method)) return new Problem('not_found')
    reply.header('allow', [...allowed].sort().join(', '))
    return new Problem('method_not_allowed', { title: `${method} is not allowed for this path` })
  }
}

interface AdminDeps {
  /** host:port */
  listen: string
  plugins: readonly FastifyPluginAsync[]
  log: Log
  /** Whether the API document is served. Default: true. */
  document?: boolean
}

interface Admin {
  app: FastifyInstance
  listen(): Promise<AddressInfo>
  /** From now on each response is the last one of its connection: none is in use when `close` ends it. */
  drain(): void
  close(): Promise<void>
}

/** Contexts are path parameters of up to 512 characters. */
const maxParamLength = 600
const bodyLimit = 1024 * 1024

/** Codes of errors of fastify. */
const codes: Readonly<Record<number, ProblemCode>> = {
  400: 'malformed',
  404: 'not_found',
  405: 'method_not_allowed',
  413: 'too_large',
  414: 'too_long',
  415: 'unsupported_media_type',
  431: 'too_large',
}

/**
 * The admin listener with its plugins. It serves after `listen`.
 *
 * @param deps its plugins and limits
 */
export function createAdmin(deps: AdminDeps): Admin {
  const { log } = deps
  let draining = false
  const app = fastify({
    logger: false,
    bodyLimit,
    // A HEAD must never count a win (SERVICE 4.7).
    exposeHeadRoutes: false,
    // the audit trail contains request ids of all nodes and all their restarts
    genReqId: () => randomUUID(),
    routerOptions: { maxParamLength },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    // no limit: a start takes longer on a busy machine, and the caller limits its time
    pluginTimeout: 0,
    frameworkErrors(error, _request, reply) {
      // a path that cannot be decoded, or one with a parameter that is too long
      if (error.code === 'FST_ERR_BAD_URL')
        problem(reply as FastifyReply, 400, 'malformed', 'The path cannot be decoded')
      else problem(reply as FastifyReply, 404, 'not_found', 'No such path')
    },
    serverFactory: createHttpServer,
    schemaController: {
      compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler },
    },
    clientErrorHandler: onClientError,
  })

  app.addHook('onRequest', async (_request, reply) => {
    reply.header('x-content-type-options', 'nosniff')
  })

  app.addHook('onRequest', singularFields)
  app.addHook('onSend', drainBody)
  app.addHook('onSend', async (_request, reply, payload) => {
    if (draining) reply.header('connection', 'close')
    return payload
  })

  app.setErrorHandler((error: FastifyError | Problem, request, reply) => {
    if (error instanceof Problem)
      return problem(reply, error.status, error.code, error.message, error.faults)
    const { code, message } = error
    const status = error.statusCode ?? 500
    if (error instanceof StoreError) {
      log.warn({ code, err: message, request: request.id }, 'the store did not respond')
      return problem(
        reply.header('retry-after', '1'),
        503,
        'store_unavailable',
        'The store cannot be reached: try again',
      )
    }
    if (error instanceof BusyError)
      return problem(reply.header('retry-after', 2), 503, 'overloaded', message)
    if (status >= 500) {
      log.error({ err: error, request: request.id }, 'an API call failed')
      return problem(reply, 500, 'internal', 'Internal Server Error')
    }
    return problem(reply, status, codes[status] ?? 'refused', message)
  })

  // routes that reject all methods but one must also match methods such as PROPFIND
  for (const method of METHODS)
    if (method !== 'CONNECT' && !app.supportedMethods.includes(method)) app.addHttpMethod(method)
  const notFound = unknownPaths(app)
  // runs before the body is parsed: an unknown path is 404 whatever the body contains
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) throw notFound(request, reply)
  })
  // never called, but without it these requests have fastify's own error handler
  app.setNotFoundHandler((request, reply) => {
    throw notFound(request, reply)
  })

  if (deps.document !== false) serveDocument(app)
  for (const plugin of deps.plugins) void app.register(plugin)

  return {
    app,
    async listen() {
      const colon = deps.listen.lastIndexOf(':')
      const host = deps.listen.slice(0, colon).replace(/^\[|\]$/g, '')
      await app.listen({ host, port: Number(deps.listen.slice(colon + 1)) })
      return app.server.address() as AddressInfo
    },
    drain() {
      draining = true
    },
    async close() {
      // Clients keep connections open; connections that become idle meanwhile are closed at the next interval.
      const idle = setInterval(() => app.server.closeIdleConnections(), 100)
      await app.close()
      clearInterval(idle)
    },
  }
}
