/** The dashboard at `/`: one page without resources of other hosts, and the figures that it polls. */
import { readFile } from 'node:fs/promises'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { type Authenticate, addRoute, type Call } from '../http/call.ts'
import { type LiveDeps, liveSnapshot } from './live.ts'

export type { LiveDeps, LiveEndpoint, LiveSnapshot, LiveState } from './live.ts'

export interface DashboardDeps extends LiveDeps {
  authenticate: Authenticate
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

const pageCall: Call = {
  method: 'GET',
  path: '/',
  id: 'dashboard',
  tag: 'service',
  summary: 'The dashboard',
  role: null,
  answers: { 200: { description: 'The page', content: { schema: z.string(), type: 'text/html' } } },
  problems: [],
}
const liveCall: Call = {
  method: 'GET',
  path: '/api/svc/live/',
  id: 'live',
  tag: 'service',
  summary: 'The figures of the dashboard',
  role: 'viewer',
  answers: {
    200: { description: 'Figures of this node', content: { schema: z.looseObject({}) } },
  },
  problems: [401, 403],
}

export function dashboard(deps: DashboardDeps): FastifyPluginAsync {
  const { authenticate, realm } = deps
  return async (app) => {
    for (const [path, file, type] of pages) {
      const body = await readFile(new URL(`./page/${file}`, import.meta.url))
      const handler = async (_request: FastifyRequest, reply: FastifyReply) =>
        reply.headers(headers).type(type).send(body)
      if (path === pageCall.path) addRoute(app, { ...pageCall, handler }, null)
      else app.get(path, { exposeHeadRoute: true }, handler)
    }
    app.get('/dashboard/settings.json', { exposeHeadRoute: true }, async (_request, reply) =>
      reply.header('cache-control', 'no-store').send({ realm }),
    )
    const handler = async ({ caller }: FastifyRequest) => liveSnapshot(deps, caller!)
    addRoute(app, { ...liveCall, handler }, authenticate)
  }
}
