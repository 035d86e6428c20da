/** Calls that the console needs besides those of management and reports. */
import type { FastifyPluginAsync } from 'fastify'
import { funnelRoute } from '../fleet/funnel-route.ts'
import { type AskLive, type LiveDeps, liveRoute } from '../fleet/live.ts'
import { liveListRoute } from '../fleet/live-list.ts'
import { type Authenticate, jsonCalls } from '../http/call.ts'
import { bidRoute, type DecisionsDeps } from '../prices/decisions.ts'
import { type ConfigurationDeps, configurationRoute } from './configuration.ts'
import { type CurveDeps, curveRoute } from './curve.ts'
import { type UsersDeps, userRoutes } from './users.ts'
import { type WhatIfDeps, whatIfRoute } from './what-if.ts'

interface ConsoleDeps extends DecisionsDeps, ConfigurationDeps, CurveDeps, WhatIfDeps {
  suppliers: LiveDeps['suppliers']
  now: LiveDeps['now']
  currency: LiveDeps['currency']
  /** Answers on another thread. */
  ask: AskLive
  authenticate: Authenticate
  /** null: users are those of an external issuer. */
  users: UsersDeps | null
}

/** Bytes. */
const bodyLimit = 16 * 1024

/**
 * The plugin of the calls that only the console uses.
 *
 * @param deps `users` null: users are those of an external issuer
 */
export function consoleCalls(deps: ConsoleDeps): FastifyPluginAsync {
  const routes = [
    liveRoute(deps, deps.ask),
    liveListRoute(deps.ask),
    funnelRoute(deps.ask),
    bidRoute(deps),
    configurationRoute(deps),
    curveRoute(deps),
    whatIfRoute(deps),
    ...(deps.users === null ? [] : userRoutes(deps.users)),
  ]
  return jsonCalls(routes, deps.authenticate, bodyLimit)
}
