/** Calls that the console needs besides those of management and reports. */
import type { FastifyPluginAsync } from 'fastify'
import { type LiveDeps, liveRoute } from '../fleet/live.ts'
import { type Authenticate, jsonCalls } from '../http/call.ts'
import { bidRoute, type DecisionsDeps } from '../prices/decisions.ts'
import { type ConfigurationDeps, configurationRoute } from './configuration.ts'
import { type CurveDeps, curveRoute } from './curve.ts'
import { type UsersDeps, userRoutes } from './users.ts'

interface ConsoleDeps extends LiveDeps, DecisionsDeps, ConfigurationDeps, CurveDeps {
  suppliers: LiveDeps['suppliers']
  authenticate: Authenticate
  /** null: users are those of an external issuer. */
  users: UsersDeps | null
}

/** Bytes. */
const bodyLimit = 16 * 1024

export function consoleCalls(deps: ConsoleDeps): FastifyPluginAsync {
  const routes = [
    liveRoute(deps),
    bidRoute(deps),
    configurationRoute(deps),
    curveRoute(deps),
    ...(deps.users === null ? [] : userRoutes(deps.users)),
  ]
  return jsonCalls(routes, deps.authenticate, bodyLimit)
}
