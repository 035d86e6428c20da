/** `/healthz`, `/readyz`, `/readyz/admin`, `/metrics`. */
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import type { FastifyInstance, FastifyPluginAsync, RouteHandlerMethod } from 'fastify'
import type { Registry } from 'prom-client'
import { exposition } from '../metrics/exposition.ts'
import { problem } from './problem.ts'

export interface HealthDeps {
  /** What is missing before bid traffic can be served; empty if ready. A lost store does not prevent it. */
  missing: () => string[]
  /** The parts of the store that do not respond, as names only: probes need no token. The log has the details. */
  lost: () => Promise<string[]>
  registry: Registry
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

/** Some load balancers send HEAD. */
const get = (app: FastifyInstance, url: string, handler: RouteHandlerMethod) =>
  app.route({ method: ['GET', 'HEAD'], url, handler })

/** `/healthz` */
export const alive: FastifyPluginAsync = async (app) => {
  get(app, '/healthz', async () => ({ status: 'ok' }))
}

export function health({ missing, lost, registry }: HealthDeps): FastifyPluginAsync {
  const scrape = exposition(registry)
  const gzipped = createGzip()
  return async (app) => {
    void app.register(alive)
    get(app, '/readyz', async (_request, reply) => {
      const waits = missing()
      if (waits.length === 0) return { status: 'ready' }
      return problem(reply, 503, 'not_ready', `not ready: ${waits.join(', ')}`)
    })
    get(app, '/readyz/admin', async (_request, reply) => {
      const parts = await lost()
      if (parts.length === 0) return { status: 'ready' }
      reply.header('retry-after', '1')
      return problem(reply, 503, 'store_unavailable', `not ready: ${parts.join(', ')}`)
    })
    get(app, '/metrics', async ({ headers }, reply) => {
      const text = await scrape()
      reply.type(registry.contentType).header('vary', 'accept-encoding')
      if (!acceptsGzip(headers['accept-encoding'])) return reply.send(text)
      return reply.header('content-encoding', 'gzip').send(await gzipped(text))
    })
  }
}
