/** `GET /api/svc/live/`: the figures of the console, over all nodes or of one. */
import type { FastifyPluginAsync } from 'fastify'
import * as z from 'zod'
import { type Authenticate, addRoute, jsonAnswer, parsedQuery, type Route } from '../http/call.ts'
import { malformed, problem } from '../http/problem.ts'
import { type LiveDeps, liveSnapshot } from './live.ts'

interface FleetDeps extends LiveDeps {
  authenticate: Authenticate
}

const liveQuery = z.strictObject({
  node: z.string().optional().describe('Only this node; by default the sums of all nodes'),
})

const liveSchema = z.looseObject({
  at: z.number().describe('Milliseconds since the epoch'),
  scope: z.enum(['all nodes', 'one node']),
  node: z.string().describe('The node that answered'),
  nodes: z.array(z.looseObject({ node: z.string(), location: z.string() })),
  currency: z.string().describe('Currency of all amounts, in units'),
  integrations: z.array(z.looseObject({ ssp: z.string() })),
})

export function fleet(deps: FleetDeps): FastifyPluginAsync {
  const live: Route = {
    method: 'GET',
    path: '/api/svc/live/',
    id: 'live',
    tag: 'service',
    summary: 'The figures of the console, summed over all nodes',
    role: 'viewer',
    query: liveQuery,
    answers: { 200: jsonAnswer('Figures by integration', liveSchema) },
    problems: [400, 401, 403, 404, 503],
    async handler(request, reply) {
      const query = parsedQuery(liveQuery, request.query)
      if ('faults' in query) return malformed(reply, query.faults)
      const snapshot = await liveSnapshot(deps, request.caller!, query.value.node)
      return snapshot ?? problem(reply, 404, 'unknown_node', 'No such node')
    },
  }
  return async (app) => addRoute(app, live, deps.authenticate)
}
