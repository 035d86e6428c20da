/** `/healthz`, `/readyz`, `/readyz/admin`, `/metrics`. */
import type { FastifyPluginAsync, RouteHandlerMethod } from 'fastify'
import type { Registry } from 'prom-client'
import { exposition } from './opd-metrics/exposition.ts'
import { problem } from './problem.ts'

export interface HealthDeps {
  /** What is still missing before bid traffic can be served; empty: ready. A lost store is not among it. */
  missing: () => string[]
  /** Rejects when the store is lost. */
  ping: () => Promise<void>
  registry: Registry
}

export function health({ missing, ping, registry }: HealthDeps): FastifyPluginAsync {
  const scrape = exposition(registry)
  return async (app) => {
    // some load balancers ask with HEAD
    const get = (url: string, handler: RouteHandlerMethod) =>
      app.route({ method: ['GET', 'HEAD'], url, handler })
    get('/healthz', async () => ({ status: 'ok' }))
    get('/readyz', async (_request, reply) => {
      const waits = missing()
      if (waits.length === 0) return { status: 'ready' }
      return problem(reply, 503, 'not_ready', `not ready: ${waits.join(', ')}`)
    })
    get('/readyz/admin', async (_request, reply) => {
      try {
        await ping()
        return { status: 'ready' }
      } catch (error) {
        return problem(reply, 503, 'store_unavailable', (error as Error).message)
      }
    })
    get('/metrics', async (_request, reply) =>
      reply.type(registry.contentType).send(await scrape()),
    )
  }
}
