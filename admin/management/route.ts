/**
 * `/api/svc/`: suppliers with their seats and data centers, holds, models, voided wins and the audit trail (CONTRACT
 * 8).
 */
import type { FastifyPluginAsync } from 'fastify'
import { type Authenticate, jsonCalls } from '../http/call.ts'
import { auditRoute } from './audit.ts'
import { type EndpointAccess, endpointRoutes } from './endpoints.ts'
import { holdRoutes } from './holds.ts'
import { type ModelAccess, modelRoutes } from './models.ts'
import { supplierRoutes } from './suppliers.ts'
import { voidRoute } from './voids.ts'

interface ManagementDeps extends ModelAccess, EndpointAccess {
  authenticate: Authenticate
}

/** Bytes. */
const bodyLimit = 1024 * 1024

/**
 * The plugin of the calls that change suppliers, seats, holds and models.
 *
 * @param deps `now`: milliseconds since the epoch, the same on all nodes
 */
export function management(deps: ManagementDeps): FastifyPluginAsync {
  const routes = [
    ...supplierRoutes(deps),
    ...holdRoutes(deps),
    ...endpointRoutes(deps),
    ...modelRoutes(deps),
    voidRoute(deps),
    auditRoute(deps),
  ]
  return async (app) => {
    app.addHook('onRequest', async ({ id }, reply) => {
      reply.header('x-request-id', id)
    })
    await app.register(jsonCalls(routes, deps.authenticate, bodyLimit))
  }
}
