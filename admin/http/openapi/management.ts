/**
 * Operations of `/api/svc/ssp/`, `/api/svc/opd/`, `/api/svc/models/`, `/api/svc/impressions/` and `/api/svc/audit/`.
 */
import { body, etag, guarded, inPath, inQuery, type Json, problems, ref } from './parts.ts'

const supplier = {
  id: 'acme',
  name: 'Acme',
  name_external: 'Acme Exchange',
  dsp_seats: [
    {
      name: 'seat-1',
      name_external: 'Buyer One',
      is_active: true,
      qps: [{ location: 'us-east', value: 500 }],
    },
  ],
  datacenters: [{ location: 'us-east', client_qps: 400, is_active: true }],
}

const id = inPath('id', 'The id of the supplier', 'acme')
const ifMatch = {
  name: 'If-Match',
  in: 'header',
  description: 'The `ETag` that the change is based on; 412 if the supplier has changed since.',
  schema: { type: 'string' },
  example: '"3"',
}
const whole = (description: string): Json => ({
  description,
  headers: etag,
  content: body(ref('Supplier'), supplier),
})

const tags = ['management']
const security = guarded

const models = {
  frozen: false,
  models: [
    { mode: 'revenue', epoch: 1, rolled_back_at: '2026-01-31T12:00:00.000Z' },
    { mode: 'margin', epoch: 0, rolled_back_at: null },
  ],
  resets: { acme: 1 },
  snapshots: [
    {
      id: 'revenue-12',
      mode: 'revenue',
      at: '2026-01-31T11:55:00.000Z',
      bytes: 65536,
      newest: true,
    },
  ],
}

/** The common part of the four commands for models. */
function ofModels(schema?: string, example?: Json, more: number[] = []): Json {
  return {
    description: 'Takes effect on every node within two seconds, and persists. Role `operator`.',
    tags,
    security,
    ...(schema === undefined ? {} : { requestBody: { content: body(ref(schema), example) } }),
    responses: {
      200: { description: 'The state after the change', content: body(ref('Models'), models) },
      ...problems(400, 401, 403, ...more, 413, 415, 503),
    },
  }
}

export const managementPaths: Readonly<Record<string, Json>> = {
  'GET /api/svc/ssp/': {
    operationId: 'listSuppliers',
    summary: "The suppliers of the caller's account",
    tags,
    security,
    responses: {
      200: {
        description: 'The suppliers that the account may see',
        content: body({ type: 'array', items: ref('Supplier') }, [supplier]),
      },
      ...problems(401, 403, 503),
    },
  },
  'GET /api/svc/ssp/{id}/': {
    operationId: 'readSupplier',
    summary: 'One supplier',
    tags,
    security,
    parameters: [id],
    responses: { 200: whole('The supplier'), ...problems(401, 403, 404, 503) },
  },
  'POST /api/svc/ssp/{id}/': {
    operationId: 'createBuyer',
    summary: 'Adds buyers (seats) and new data centers',
    description:
      'All or nothing. A data center that exists with the same values is ignored, with other values it is 409. `client_qps` of a location must not exceed the sum of its seats’ `qps`.',
    tags,
    security,
    parameters: [id, ifMatch],
    requestBody: {
      required: true,
      content: body(ref('SupplierCreate'), {
        dsp_seats: supplier.dsp_seats,
        datacenters: supplier.datacenters,
      }),
    },
    responses: {
      201: whole('The supplier after the change'),
      ...problems(400, 401, 403, 404, 409, 412, 413, 415, 422, 503),
    },
  },
  'PUT /api/svc/ssp/{id}/': {
    operationId: 'updateSupplier',
    summary: 'Activates or deactivates buyers and data centers, sets allotments',
    description:
      'Seats are matched by `name`, data centers by `location`. Only `dsp_seats[].is_active`, `datacenters[].is_active` and `datacenters[].client_qps` may differ from the stored values. Omitted fields keep their values.',
    tags,
    security,
    parameters: [id, ifMatch],
    requestBody: {
      required: true,
      content: body(ref('SupplierUpdate'), {
        dsp_seats: [{ name: 'seat-1', is_active: false }],
        datacenters: [{ location: 'us-east', client_qps: null }],
      }),
    },
    responses: {
      200: whole('The supplier after the change'),
      ...problems(400, 401, 403, 404, 412, 413, 415, 422, 503),
    },
  },
  'GET /api/svc/opd/': {
    operationId: 'listHolds',
    summary: 'Which integrations are held at factor 1',
    tags,
    security,
    responses: {
      200: {
        description: 'All integrations (`*`) first',
        content: body({ type: 'array', items: ref('HoldState') }, [
          { supplier: '*', hold: false },
          { supplier: 'acme', hold: true },
        ]),
      },
      ...problems(401, 403, 503),
    },
  },
  'PUT /api/svc/opd/{id}/': {
    operationId: 'holdIntegration',
    summary: 'Holds an integration, or all (`*`), at factor 1',
    description: 'Takes effect on every node within two seconds, and persists. Role `operator`.',
    tags,
    security,
    parameters: [inPath('id', 'The supplier, or `*` for all', '*')],
    requestBody: { required: true, content: body(ref('Hold'), { hold: true }) },
    responses: {
      200: {
        description: 'The state of the hold',
        content: body(ref('HoldState'), { supplier: '*', hold: true }),
      },
      ...problems(400, 401, 403, 404, 413, 415, 503),
    },
  },
  'GET /api/svc/models/': {
    operationId: 'readModels',
    summary: 'The models: frozen or not, rollbacks, forgotten suppliers, snapshots of this node',
    tags,
    security,
    responses: {
      200: { description: 'The present state', content: body(ref('Models'), models) },
      ...problems(401, 403, 503),
    },
  },
  'POST /api/svc/models/freeze/': {
    operationId: 'freezeModels',
    summary: 'Freezes the models: they set prices and do not learn',
    ...ofModels(),
  },
  'POST /api/svc/models/unfreeze/': {
    operationId: 'unfreezeModels',
    summary: 'Lets the models learn again',
    ...ofModels(),
  },
  'POST /api/svc/models/rollback/': {
    operationId: 'rollBackModels',
    summary: 'Rolls back to a snapshot of the node that handles the request',
    ...ofModels('ModelsRollback', { id: 'revenue-12' }, [404, 409]),
  },
  'POST /api/svc/models/reset/': {
    operationId: 'resetModels',
    summary: 'Makes the models forget one supplier',
    ...ofModels('ModelsReset', { supplier: 'acme' }, [404]),
  },
  'POST /api/svc/impressions/{decision}/void/': {
    operationId: 'voidWin',
    summary: 'Removes a win from all sums',
    description:
      'Voids all events of the decision. The rows stay, with the status `voided`; a repeated notice of the win is a duplicate. Voiding a win twice changes nothing. The model is not changed. Role `operator`.',
    tags,
    security,
    parameters: [inPath('decision', 'The decision: `id` of the explain call', 'bf_SYc-nqWIAAAAB')],
    responses: {
      200: {
        description: 'The win is voided',
        content: body(ref('VoidedWin'), {
          decision: 'bf_SYc-nqWIAAAAB',
          status: 'voided',
          supplier: 'acme',
          events: ['win'],
        }),
      },
      ...problems(401, 403, 404, 413, 415, 503),
    },
  },
  'GET /api/svc/audit/': {
    operationId: 'listAudit',
    summary: 'Changes and their authors, newest first',
    tags,
    security,
    parameters: [
      inQuery('limit', 'Entries of one page', {
        type: 'integer',
        minimum: 1,
        maximum: 1000,
        default: 100,
      }),
      inQuery('before', 'Only entries with a smaller `id`, such as the last of the previous page', {
        type: 'integer',
        minimum: 0,
      }),
      inQuery('ssp', 'Only entries of this supplier', { type: 'string' }),
    ],
    responses: {
      200: {
        description: 'Entries of the suppliers that the account may see',
        content: body({ type: 'array', items: ref('AuditEntry') }, [
          {
            id: 7,
            at: '2026-01-31T12:00:00.000Z',
            who: 'admin',
            account: '*',
            supplier: 'acme',
            action: 'hold',
            request_id: '3f0c6f4e-9d0b-4a57-8b0e-2f6f3b1d9c55',
            before: false,
            after: true,
          },
        ]),
      },
      ...problems(400, 401, 403, 404, 503),
    },
  },
}
