/** The dashboard at `/`: one page without resources of other hosts, and the figures that it polls. */
import { readFile } from 'node:fs/promises'
import type { FastifyPluginAsync, preHandlerAsyncHookHandler } from 'fastify'
import { type LiveDeps, liveSnapshot } from './live.ts'

export type { LiveDeps, LiveEndpoint, LiveSnapshot, LiveState } from './live.ts'

export interface DashboardDeps extends LiveDeps {
  bearer: preHandlerAsyncHookHandler
  /** The embedded realm, where users log in on the page; null: the user enters a token. */
  realm: string | null
}

const pages: readonly [path: string, file: string, type: string][] = [
  ['/', 'index.html', 'text/html; charset=utf-8'],
  ['/dashboard/app.css', 'app.css', 'text/css; charset=utf-8'],
  ['/dashboard/app.js', 'app.js', 'text/javascript; charset=utf-8'],
  ['/dashboard/view.js', 'view.js', 'text/javascript; charset=utf-8'],
]

const headers = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-cache',
}

export function dashboard(deps: DashboardDeps): FastifyPluginAsync {
  const { bearer, realm } = deps
  return async (app) => {
    for (const [path, file, type] of pages) {
      const body = await readFile(new URL(`./page/${file}`, import.meta.url))
      app.get(path, { exposeHeadRoute: true }, async (_request, reply) =>
        reply.headers(headers).type(type).send(body),
      )
    }
    app.get('/dashboard/settings.json', { exposeHeadRoute: true }, async (_request, reply) =>
      reply.header('cache-control', 'no-store').send({ realm }),
    )
    const live = { onRequest: bearer, logLevel: 'warn', exposeHeadRoute: true } as const
    for (const path of ['/api/svc/live/', '/api/svc/live'])
      app.get(path, live, async (request, reply) => {
        const { caller } = request
        if (caller === undefined) throw new Error('the request has no caller')
        return reply.header('cache-control', 'no-store').send(liveSnapshot(deps, caller))
      })
  }
}
