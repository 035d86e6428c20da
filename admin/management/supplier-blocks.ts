/**
 * `/api/svc/suppliers/`: suppliers with all keys of the configuration file (CONTRACT 14). Those of the file are read-only;
 * the others are rows of the store, which every node follows.
 */
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import * as z from 'zod'
import { type Authenticate, addRoute, type Content, type Route } from '../http/call.ts'
import { takeJsonAsBytes } from '../http/json-body.ts'
import { blockActions } from '../store/supplier-blocks.ts'
import { ofAllAccounts } from './access.ts'
import {
  type BlockDeps,
  dryRunSchema,
  pageSchema,
  revertSchema,
  SupplierBlockCalls,
} from './supplier-block-calls.ts'

/** Bytes. */
const bodyLimit = 1024 * 1024
const listLimit = 8 * bodyLimit

const mergePatchType = 'application/merge-patch+json'
const params = { id: ['The id of the supplier', 'acme'] } as const
const ifMatch = (least: string) => ({
  'If-Match': `The \`ETag\` that the change is based on; ${least}412 if the supplier has changed since.`,
})
const differenceSchema = z
  .strictObject({
    pointer: z.string(),
    before: z.unknown().optional(),
    after: z.unknown().optional(),
  })
  .meta({
    id: 'SupplierDifference',
    description: 'One value that differs. Without `before` it was added, without `after` removed.',
  })
const ids = z.array(z.string())
const listResultSchema = z
  .strictObject({
    dryRun: z.boolean(),
    created: ids,
    changed: ids,
    deleted: ids,
    unchanged: ids,
    difference: z.record(z.string(), z.array(differenceSchema)),
  })
  .meta({ id: 'SupplierListResult' })

const example = {
  id: 'acme',
  name: 'Acme',
  account: 'acme-media',
  endpoints: ['https://bid.acme.example/openrtb'],
  timeout: '120ms',
  opd: { enabled: 'shadow' },
}

const content = (schema: z.ZodType, shown: unknown): Content => ({
  schema: schema,
  example: shown,
  io: 'input',
})

const versionSchema = z
  .strictObject({
    version: z.int(),
    at: z.iso.datetime(),
    who: z.string(),
    account: z.string(),
    action: z.enum(blockActions),
    request_id: z.string(),
    supplier: z.unknown().describe('The supplier as of this version; null: deleted'),
    difference: z.array(differenceSchema).describe('To the version before'),
  })
  .meta({ id: 'SupplierVersion' })

const path = '/api/svc/suppliers/{id}/'
const tag = 'management'
const role = 'operator'
const shown = { ...example, origin: 'api', version: 3 }

const etag = {
  ETag: { description: 'For `If-Match`', schema: { type: 'string' }, example: '"3"' },
}

/** The schemas of suppliers, which depend on the configuration's. */
function schemasOf(deps: BlockDeps) {
  const fields = {
    origin: z.enum(['file', 'api']).describe('Who owns the supplier'),
    version: z.int().optional().describe('Of a supplier of the API'),
    stored_version: z
      .int()
      .optional()
      .describe('The file and the API both have a supplier of this id: the file wins'),
  }
  const schema = z
    .strictObject({ ...deps.schema.shape, ...fields })
    .meta({ id: 'ConfiguredSupplier' })
  const sentSchema = deps.schema.meta({ id: 'SupplierBlock' })
  const resultSchema = z
    .strictObject({
      dryRun: z.literal(true),
      faults: z.array(z.never()),
      difference: z.array(differenceSchema),
      supplier: schema.nullable(),
    })
    .meta({ id: 'SupplierDryRun' })
  const supplierAnswer = (description: string) => ({
    description: `${description}. With \`dryRun\`: what would be changed`,
    headers: etag,
    content: content(z.union([schema, resultSchema]), shown),
  })
  return { schema, sentSchema, whole: supplierAnswer }
}

type Schemas = ReturnType<typeof schemasOf>

/** Calls of the list of all suppliers. */
function listRoutes(
  calls: SupplierBlockCalls,
  { schema, sentSchema, whole: supplierAnswer }: Schemas,
): Route[] {
  return [
    {
      ...{ method: 'GET', path: '/api/svc/suppliers/', id: 'listConfiguredSuppliers', tag, role },
      summary: 'Suppliers with their configuration, of the file and of the API',
      answers: {
        200: {
          description: 'The suppliers that the account may see, by id',
          headers: etag,
          content: content(z.array(schema), [shown]),
        },
      },
      problems: [503],
      handler: calls.list,
    },
    {
      ...{ method: 'POST', path: '/api/svc/suppliers/', id: 'addSupplier', tag, role },
      summary: 'Adds a supplier',
      description:
        'The keys are those of `suppliers[]` in the configuration file. Secrets are references, `{"file": "…"}` or `"${NAME}"`, which each node reads for itself. Every node acts on the supplier within two seconds. Account `*` only.',
      query: dryRunSchema,
      body: content(sentSchema, example),
      answers: { 200: supplierAnswer('A dry run'), 201: supplierAnswer('The supplier') },
      problems: [409, 422, 503],
      handler: ofAllAccounts(calls.create),
    },
    {
      ...{ method: 'PUT', path: '/api/svc/suppliers/', id: 'applySuppliers', tag, role },
      summary: 'Applies a list of suppliers as a whole',
      description:
        'All or nothing. Suppliers of the API that the list lacks are deleted; those of the file are not touched, and must not be in the list. Account `*` only.',
      query: dryRunSchema,
      headers: ifMatch(''),
      body: content(z.union([z.array(sentSchema), z.object({ suppliers: z.array(sentSchema) })]), [
        example,
      ]),
      answers: {
        200: {
          description: 'What has changed, or with `dryRun` would change',
          content: {
            schema: listResultSchema,
            example: {
              dryRun: false,
              created: ['bolt'],
              changed: ['acme'],
              deleted: [],
              unchanged: [],
              difference: { acme: [{ pointer: '/timeout', before: '120ms', after: '100ms' }] },
            },
          },
        },
      },
      problems: [409, 412, 422, 503],
      handler: ofAllAccounts(calls.applyList),
    },
  ]
}

/** Calls of one supplier. */
function supplierRoutes(
  calls: SupplierBlockCalls,
  { schema, sentSchema, whole: supplierAnswer }: Schemas,
): Route[] {
  return [
    {
      ...{ method: 'GET', path, id: 'readConfiguredSupplier', tag, role, params },
      summary: 'One supplier with its configuration',
      answers: {
        200: {
          description:
            'The supplier. One of the API is as it was sent; one of the file has its defaults filled in and its secrets hidden',
          headers: etag,
          content: content(schema, shown),
        },
      },
      problems: [404, 503],
      handler: calls.one,
    },
    {
      ...{ method: 'PUT', path, id: 'replaceSupplier', tag, role, params },
      summary: 'Replaces the configuration of a supplier',
      description: 'Account `*` only.',
      query: dryRunSchema,
      headers: ifMatch('428 without it, '),
      body: content(sentSchema, example),
      answers: { 200: supplierAnswer('The supplier after the change') },
      problems: [404, 409, 412, 422, 428, 503],
      handler: ofAllAccounts(calls.replace),
    },
    {
      ...{ method: 'PATCH', path, id: 'patchSupplier', tag, role, params },
      summary: 'Changes some keys of a supplier',
      description: 'A JSON merge patch (RFC 7396): `null` removes a key. Account `*` only.',
      query: dryRunSchema,
      headers: ifMatch('428 without it, '),
      body: {
        schema: z.looseObject({}),
        example: { timeout: '100ms', opd: { share: 0.1 } },
        type: mergePatchType,
      },
      answers: { 200: supplierAnswer('The supplier after the change') },
      problems: [404, 409, 412, 422, 428, 503],
      handler: ofAllAccounts(calls.patch),
    },
    {
      ...{ method: 'DELETE', path, id: 'deleteSupplier', tag, role, params },
      summary: 'Deletes a supplier',
      description:
        'Bid requests are answered 404 from then on. Its ledger and its history stay, and the id can be used again only by its account. Account `*` only.',
      query: dryRunSchema,
      headers: ifMatch('428 without it, '),
      answers: {
        200: supplierAnswer('A dry run'),
        204: { description: 'The supplier is deleted' },
      },
      problems: [404, 409, 412, 428, 503],
      handler: ofAllAccounts(calls.remove),
    },
  ]
}

/** Calls of the versions of a supplier. */
function versionRoutes(calls: SupplierBlockCalls, { whole: supplierAnswer }: Schemas): Route[] {
  return [
    {
      ...{ method: 'GET', path: `${path}history/`, id: 'listSupplierVersions', tag, role, params },
      summary: 'The versions of a supplier of the API and their authors, newest first',
      query: pageSchema,
      answers: {
        200: {
          description: 'Versions, of a deleted supplier too',
          content: {
            schema: z.array(versionSchema),
            example: [
              {
                version: 3,
                at: '2026-01-31T12:00:00.000Z',
                who: 'admin',
                account: '*',
                action: 'supplier_update',
                request_id: '3f0c6f4e-9d0b-4a57-8b0e-2f6f3b1d9c55',
                supplier: example,
                difference: [{ pointer: '/timeout', before: '100ms', after: '120ms' }],
              },
            ],
          },
        },
      },
      problems: [404, 503],
      handler: calls.history,
    },
    {
      ...{ method: 'POST', path: `${path}revert/`, id: 'revertSupplier', tag, role, params },
      summary: 'Returns a supplier to one of its versions, also after a deletion',
      description: 'Account `*` only.',
      query: dryRunSchema,
      headers: ifMatch(''),
      body: { schema: revertSchema, example: { version: 2 } },
      answers: {
        200: supplierAnswer('The supplier after the change'),
        201: supplierAnswer('The supplier, which was deleted before'),
      },
      problems: [404, 409, 412, 422, 503],
      handler: ofAllAccounts(calls.revert),
    },
  ]
}

function supplierBlockRoutes(deps: BlockDeps): Route[] {
  const [calls, schemas] = [new SupplierBlockCalls(deps), schemasOf(deps)]
  return [
    ...listRoutes(calls, schemas),
    ...supplierRoutes(calls, schemas),
    ...versionRoutes(calls, schemas),
  ]
}

/**
 * The plugin of `/api/svc/suppliers/`.
 *
 * @param deps `authenticate` answers a caller without a valid token
 */
export function supplierBlocks(
  deps: BlockDeps & { authenticate: Authenticate },
): FastifyPluginAsync {
  const routes = supplierBlockRoutes(deps)
  return async (app: FastifyInstance) => {
    app.addHook('onRequest', async ({ id }, reply) => {
      reply.header('x-request-id', id)
    })
    takeJsonAsBytes(app, bodyLimit, ['application/json', mergePatchType])
    for (const route of routes)
      addRoute(app, route, deps.authenticate, route.id === 'applySuppliers' ? listLimit : bodyLimit)
  }
}
