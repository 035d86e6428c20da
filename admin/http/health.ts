/** `/healthz`, `/readyz`, `/readyz/admin`, `/metrics`. */
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import type { FastifyPluginAsync } from 'fastify'
import * as z from 'zod'
import type { RegisteredMetric } from '../../opd/base/metrics.ts'
import { addRoute, jsonAnswer, type Route } from './call.ts'
import { contentTypeOf, exposition, preferredFormat } from './exposition.ts'
import { Problem } from './problem.ts'

interface HealthDeps {
  /** What is missing before bid traffic can be served; empty if ready. A lost store does not prevent it. */
  missing: () => string[]
  /** The parts of the store that do not respond, as names only: probes need no token. The log has the details. */
  lost: () => Promise<string[]>
  metrics: () => readonly RegisteredMetric[]
  /** Called before each scrape. */
  prepare?: (() => Promise<void>) | undefined
}

const compress = promisify(gzip)
const acceptsGzip = (accepted = '') =>
  /(^|,)\s*gzip\s*(;\s*q=(?!0(\.0*)?\s*(,|$))|,|$)/i.test(accepted)

/** Compresses a text once for all requests that share it, on a thread of the pool. */
function createGzip() {
  const cached = new WeakMap<Buffer, Promise<Buffer>>()
  return (text: Buffer) => {
    const gzipped = cached.get(text) ?? compress(text, { level: constants.Z_BEST_SPEED })
    cached.set(text, gzipped)
    return gzipped
  }
}

const probe = (path: string, id: string, summary: string, status: string) =>
  ({
    method: 'GET',
    path,
    id,
    tag: 'service',
    summary,
    role: null,
    answers: { 200: jsonAnswer(summary, z.object({ status: z.literal(status) }), { status }) },
  }) as const

const aliveRoute: Route = {
  ...probe('/healthz', 'alive', 'Liveness of the process', 'ok'),
  handler: async () => ({ status: 'ok' }),
}

/** `/healthz` alone. */
export const alive: FastifyPluginAsync = async (app) => addRoute(app, aliveRoute)

const adminSummary = 'Readiness of the store for API calls and win notices'

/** `parts` are those that are missing. */
function readiness(code: 'not_ready' | 'store_unavailable', parts: readonly string[]) {
  if (parts.length > 0) throw new Problem(code, { title: `not ready: ${parts.join(', ')}` })
  return { status: 'ready' }
}

/**
 * The plugin of `/healthz`, `/readyz`, `/readyz/admin` and `/metrics`.
 *
 * @param deps what is missing, what was lost, and the text of `/metrics`
 */
export function health({ missing, lost, metrics, prepare }: HealthDeps): FastifyPluginAsync {
  const scrape = exposition(metrics, prepare)
  const gzipped = createGzip()
  const routes: Route[] = [
    aliveRoute,
    {
      ...probe('/readyz', 'ready', 'Readiness for bid traffic', 'ready'),
      problems: [503],
      handler: async () => readiness('not_ready', missing()),
    },
    {
      ...probe('/readyz/admin', 'readyAdmin', adminSummary, 'ready'),
      problems: [503],
      async handler(_request, reply) {
        const parts = await lost()
        if (parts.length > 0) reply.header('retry-after', '1')
        return readiness('store_unavailable', parts)
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      id: 'metrics',
      tag: 'service',
      role: null,
      summary: 'Metrics for Prometheus',
      answers: {
        200: {
          description:
            'The text exposition format; in Protocol Buffers, with native histograms, for a scraper whose Accept header prefers it',
          content: { schema: z.string(), type: 'text/plain' },
        },
      },
      async handler({ headers }, reply) {
        const format = preferredFormat(headers.accept)
        const text = await scrape(format)
        reply.type(contentTypeOf(format)).header('vary', 'accept, accept-encoding')
        if (!acceptsGzip(headers['accept-encoding'])) return reply.send(text)
        return reply.header('content-encoding', 'gzip').send(await gzipped(text))
      },
    },
  ]
  return async (app) => {
    // some load balancers send HEAD
    for (const route of routes) addRoute(app, route)
  }
}
