/** Calls that the console needs besides those of management and reports. */
import type { FastifyPluginAsync } from 'fastify'
import { type Authenticate, addRoute } from '../http/call.ts'
import { takeJsonAsBytes } from '../http/json-body.ts'
import { type BidDeps, bidRoute } from './bid.ts'
import { type ConfigurationDeps, configurationRoute } from './configuration.ts'
import { type CurveDeps, curveRoute } from './curve.ts'
import { type UsersDeps, userRoutes } from './users.ts'

interface ConsoleDeps extends BidDeps, ConfigurationDeps, CurveDeps {
  authenticate: Authenticate
  /** null: users are those of an external issuer. */
  users: UsersDeps | null
}

/** Bytes. */
const bodyLimit = 16 * 1024

export function consoleCalls(deps: ConsoleDeps): FastifyPluginAsync {
  const routes = [
    bidRoute(deps),
    configurationRoute(deps),
    curveRoute(deps),
    ...(deps.users === null ? [] : userRoutes(deps.users)),
  ]
  return async (app) => {
    takeJsonAsBytes(app, bodyLimit)
    for (const route of routes) addRoute(app, route, deps.authenticate, bodyLimit)
  }
}
