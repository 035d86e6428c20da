/** `/healthz`, `/readyz`, `/readyz/admin`, `/metrics`. */
import type { FastifyPluginAsync } from 'fastify'
import type { Registry } from 'prom-client'
import { problem } from './problem.ts'

export interface HealthDeps {
  /** What is still missing before bid traffic can be served; empty: ready. A lost store is not among it. */
  missing: () => string[]
  /** Rejects when the store is lost. */
  ping: () => Promise<void>
  registry: Registry
}

export function health({ missing, ping, registry }: HealthDeps): FastifyPluginAsync {
  return async (app) => {
    app.get('/healthz', async () => ({ status: 'ok' }))
    app.get('/readyz', async (_request, reply) => {
      const waits = missing()
      if (waits.length === 0) return { status: 'ready' }
      return problem(reply, 503, 'not_ready', `not ready: ${waits.join(', ')}`)
    })
    app.get('/readyz/admin', async (_request, reply) => {
      try {
        await ping()
        return { status: 'ready' }
      } catch (error) {
        return problem(reply, 503, 'store_unavailable', (error as Error).message)
      }
    })
    app.get('/metrics', async (_request, reply) =>
      reply.type(registry.contentType).send(await registry.metrics()),
    )
  }
}
