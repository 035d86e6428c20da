/**
 * `/api/svc/`: suppliers with their seats and data centers, holds, models, voided wins and the audit trail (CONTRACT
 * 8).
 */
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import { type Authenticate, addRoute } from '../http/call.ts'
import { auditRoute } from './audit.ts'
import { holdRoutes } from './holds.ts'
import { type ModelAccess, modelRoutes } from './models.ts'
import { supplierRoutes } from './suppliers.ts'
import { voidRoute } from './voids.ts'

export type { ListedSupplier } from './access.ts'

export interface ManagementDeps extends ModelAccess {
  authenticate: Authenticate
}

/** Bytes. */
const bodyLimit = 1024 * 1024

export function management(deps: ManagementDeps): FastifyPluginAsync {
  const routes = [
    ...supplierRoutes(deps),
    ...holdRoutes(deps),
    ...modelRoutes(deps),
    voidRoute(deps),
    auditRoute(deps),
  ]
  return async (app) => {
    // Bodies are parsed from their bytes, since duplicate keys and encodings are faults.
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(
      'application/json',
      { parseAs: 'buffer', bodyLimit },
      async (_request: FastifyRequest, body: Buffer) => body,
    )
    app.addHook('onRequest', async ({ id }, reply) => {
      reply.header('x-request-id', id)
    })
    for (const route of routes) addRoute(app, route, deps.authenticate, bodyLimit)
  }
}
