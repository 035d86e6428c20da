/**
 * `/api/svc/`: suppliers with their seats and data centers, holds, models, voided wins and the audit trail (CONTRACT
 * 8).
 */
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  preHandlerAsyncHookHandler,
} from 'fastify'
import { rejectEncodedBody } from '../http/reject-encoded-body.ts'
import { auditCall } from './audit.ts'
import { holdCalls } from './holds.ts'
import { type ModelAccess, modelCalls } from './models.ts'
import { supplierCalls } from './suppliers.ts'
import { voidCall } from './voids.ts'

export type { ListedSupplier } from './access.ts'

export interface ManagementDeps extends ModelAccess {
  /** Authentication for reading, editing and holding. */
  reading: preHandlerAsyncHookHandler
  editing: preHandlerAsyncHookHandler
  operator: preHandlerAsyncHookHandler
}

/** Bytes. */
const bodyLimit = 1024 * 1024

type Call = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

export function management(deps: ManagementDeps): FastifyPluginAsync {
  const { reading, editing, operator } = deps
  const suppliers = supplierCalls(deps)
  const holds = holdCalls(deps)
  const models = modelCalls(deps)

  return async (app) => {
    // Bodies are parsed from their bytes, since duplicate keys and encodings are faults.
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(
      'application/json',
      { parseAs: 'buffer', bodyLimit },
      async (_request: FastifyRequest, body: Buffer) => body,
    )
    // responses depend on the account, and change
    app.addHook('onRequest', async ({ id }, reply) => {
      reply.headers({ 'cache-control': 'no-store', 'x-request-id': id })
    })
    const route = (
      method: 'GET' | 'POST' | 'PUT',
      path: string,
      handler: Call,
      authenticate = method === 'GET' ? reading : editing,
    ) => {
      // the token is checked before the body is read
      const onRequest = method === 'GET' ? [authenticate] : [authenticate, rejectEncodedBody]
      const exposeHeadRoute = method === 'GET'
      for (const url of [path, path.slice(0, -1)])
        app.route({ method, url, onRequest, bodyLimit, exposeHeadRoute, handler })
    }
    route('GET', '/api/svc/ssp/', suppliers.list)
    route('GET', '/api/svc/ssp/:id([^/]+)/', suppliers.one)
    route('POST', '/api/svc/ssp/:id([^/]+)/', suppliers.create)
    route('PUT', '/api/svc/ssp/:id([^/]+)/', suppliers.put)
    route('GET', '/api/svc/opd/', holds.list)
    route('PUT', '/api/svc/opd/:id([^/]+)/', holds.put, operator)
    route('GET', '/api/svc/models/', models.list)
    route('POST', '/api/svc/models/freeze/', models.freeze, operator)
    route('POST', '/api/svc/models/unfreeze/', models.unfreeze, operator)
    route('POST', '/api/svc/models/rollback/', models.rollback, operator)
    route('POST', '/api/svc/models/reset/', models.reset, operator)
    route('POST', '/api/svc/impressions/:decision([^/]+)/void/', voidCall(deps), operator)
    route('GET', '/api/svc/audit/', auditCall(deps))
  }
}
