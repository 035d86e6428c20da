/** Calls that the console needs besides those of management and reports. */
import type { FastifyPluginAsync } from 'fastify'
import { type FunnelDeps, funnelRoute } from '../fleet/funnel-route.ts'
import { type LiveDeps, liveRoute } from '../fleet/live.ts'
import { liveListRoute, reused } from '../fleet/live-list.ts'
import { type Authenticate, jsonCalls } from '../http/call.ts'
import { bidRoute, type DecisionsDeps } from '../prices/decisions.ts'
import { type ConfigurationDeps, configurationRoute } from './configuration.ts'
import { type CurveDeps, curveRoute } from './curve.ts'
import { type UsersDeps, userRoutes } from './users.ts'
import { type WhatIfDeps, whatIfRoute } from './what-if.ts'

interface ConsoleDeps extends FunnelDeps, DecisionsDeps, ConfigurationDeps, CurveDeps, WhatIfDeps {
  suppliers: LiveDeps['suppliers']
  now: LiveDeps['now']
  currency: LiveDeps['currency']
  authenticate: Authenticate
  /** null: users are those of an external issuer. */
  users: UsersDeps | null
}

/** Milliseconds for which the figures of the nodes are used again. */
const pollTime = 1000
/** Bytes. */
const bodyLimit = 16 * 1024

/**
 * The plugin of the calls that only the console uses.
 *
 * @param deps `users` null: users are those of an external issuer
 */
export function consoleCalls(deps: ConsoleDeps): FastifyPluginAsync {
  // what each open console polls does not read all counters each time
  const polled = { ...deps, nodes: reused(deps.nodes, pollTime) }
  const routes = [
    liveRoute(deps, polled),
    liveListRoute(polled),
    funnelRoute(polled),
    bidRoute(deps),
    configurationRoute(deps),
    curveRoute(deps),
    whatIfRoute(deps),
    ...(deps.users === null ? [] : userRoutes(deps.users)),
  ]
  return jsonCalls(routes, deps.authenticate, bodyLimit)
}
