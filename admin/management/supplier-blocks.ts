/**
 * `/api/svc/suppliers/`: suppliers with all keys of the configuration file (CONTRACT 14). Those of the file are read-only;
 * the others are rows of the store, which every node follows.
 */
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { type Authenticate, addRoute, type Content, queryOf, type Route } from '../http/call.ts'
import { jsonOf, longListOf, takeJsonAsBytes } from '../http/json-body.ts'
import { malformed, Problem } from '../http/problem.ts'
import { canSee } from '../http/roles.ts'
import type { Store } from '../store/index.ts'
import {
  type Block,
  type BlockChange,
  blockActions,
  changeBlocks,
  countBlocks,
  readBlock,
  readBlocks,
  readVersions,
  type StoredBlock,
} from '../store/supplier-blocks.ts'
import { authorOf, ofAllAccounts } from './access.ts'
import {
  accountOf,
  type BlockRules,
  blockDifferences,
  changeOf,
  etagOf,
  listFaults,
  maxSuppliers,
  mergePatch,
  planList,
  refuseExcess,
  refuseFaults,
  refuseFile,
  refuseReserved,
  unknownSupplier,
} from './block-plans.ts'
import { matches } from './suppliers.ts'

interface FileSupplier {
  id: string
  account: string | null
}

export interface BlockDeps extends BlockRules {
  store: Store
  /** The schema of a supplier in the configuration file. */
  schema: z.ZodObject
  /** The suppliers of the file. */
  fileSuppliers(): readonly FileSupplier[]
  /** One of them with its defaults, its secrets hidden. */
  shown(id: string): object
  /** Resolves when this node has acted on the last change. It never rejects. */
  applied(): Promise<void>
  now: () => number
}

/** Bytes. */
const bodyLimit = 1024 * 1024
const listLimit = 8 * bodyLimit

const mergePatchType = 'application/merge-patch+json'
const params = { id: ['The id of the supplier', 'acme'] } as const
const ifMatch = (least: string) => ({
  'If-Match': `The \`ETag\` that the change is based on; ${least}412 if the supplier has changed since.`,
})
const dryRunSchema = z.strictObject({
  dryRun: z
    .enum(['true', 'false'])
    .default('false')
    .describe('true: nothing is changed; the answer says what would be, or has the faults'),
})
const pageSchema = z.strictObject({
  limit: z.int('is a whole number, 1 to 100').min(1).max(100).default(20).describe('Versions'),
  before: z
    .int('is a whole number')
    .min(1)
    .optional()
    .describe('Only versions below this one, such as the last of the previous page'),
})
const revertSchema = z.strictObject({ version: z.int().min(1) }).meta({ id: 'SupplierRevert' })
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

/** The body of a supplier. `origin` and `version` of an answer may be sent back. */
function blockOf(body: unknown): Block {
  if (body === null || typeof body !== 'object' || Array.isArray(body))
    throw malformed([{ pointer: '', detail: 'must be a JSON object' }])
  const { origin: _origin, version: _version, stored_version: _stored, ...block } = body as Block
  return block
}

/** The block of a call for one id, which the body may leave out. */
function withId(block: Block, id: string): Block {
  if (block['id'] !== undefined && block['id'] !== id)
    throw new Problem('not_editable', {
      title: 'The id cannot be changed',
      faults: [{ pointer: '/id', detail: `the id of this path is ${id}` }],
    })
  return { id, ...block }
}

/** A list, or an object with the list `suppliers`, as in the configuration file. */
function listOf(body: unknown): Block[] {
  const isWrapped = body !== null && typeof body === 'object' && !Array.isArray(body)
  const entries = isWrapped ? Object.entries(body) : []
  const list = isWrapped && entries.length === 1 ? (body as Block)['suppliers'] : body
  if (!Array.isArray(list))
    throw malformed([{ pointer: '', detail: 'must be a list of suppliers, or {"suppliers": […]}' }])
  return list.map((each, index) => {
    if (each === null || typeof each !== 'object' || Array.isArray(each))
      throw malformed([{ pointer: `/${index}`, detail: 'must be a JSON object' }])
    return blockOf(each)
  })
}

function supplierBlockRoutes(deps: BlockDeps): Route[] {
  const { store, now } = deps
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
  const content = (of: z.ZodType, shown: unknown): Content => ({
    schema: of,
    example: shown,
    io: 'input',
  })
  const resultSchema = z
    .strictObject({
      dryRun: z.literal(true),
      faults: z.array(z.never()),
      difference: z.array(differenceSchema),
      supplier: schema.nullable(),
    })
    .meta({ id: 'SupplierDryRun' })
  const resource = ({ block, version }: StoredBlock) => ({ ...block, origin: 'api', version })
  const shown = { ...example, origin: 'api', version: 3 }
  const etag = {
    ETag: { description: 'For `If-Match`', schema: { type: 'string' }, example: '"3"' },
  }
  const whole = (description: string) => ({
    description: `${description}. With \`dryRun\`: what would be changed`,
    headers: etag,
    content: content(z.union([schema, resultSchema]), shown),
  })

  const isDryRun = (request: FastifyRequest) => queryOf(dryRunSchema, request).dryRun === 'true'
  const idOf = (request: FastifyRequest) => (request.params as { id: string }).id

  /** Checks `If-Match` against the row, which it must name if `isRequired`. */
  function refuseOutdated(request: FastifyRequest, row: StoredBlock, isRequired: boolean): void {
    const wanted = request.headers['if-match']
    if (wanted === undefined) {
      if (isRequired) throw new Problem('precondition_required')
    } else if (!matches(wanted, etagOf(row))) throw new Problem('outdated')
  }

  /** Decides with the stored row about one supplier, and writes, or says what would be written. */
  async function changeOne(
    request: FastifyRequest,
    reply: FastifyReply,
    id: string,
    plan: (row: StoredBlock | undefined) => BlockChange | null,
  ): Promise<FastifyReply> {
    let before: StoredBlock | undefined
    const decide = (current: ReadonlyMap<string, StoredBlock>) => {
      before = current.get(id)
      const change = plan(before)
      return change === null ? [] : [change]
    }
    if (isDryRun(request)) {
      const row = await readBlock(store.db, id)
      const [change] = decide(new Map(row === null ? [] : [[id, row]]))
      const from = before?.block ?? null
      const block = change === undefined ? from : change.block
      const version = (before?.version ?? 0) + (change === undefined ? 0 : 1)
      const supplier = block === null ? null : { ...block, origin: 'api', version }
      return reply.send({
        ...{ dryRun: true, faults: [], difference: blockDifferences(from, block) },
        supplier,
      })
    }
    const author = authorOf(request)
    const [written] = await changeBlocks(store, now(), author, [id], async (current, trx) => {
      const changes = decide(current)
      const adds = changes[0]?.action === 'supplier_create' || (before?.block ?? null) === null
      if (adds && changes.length > 0) refuseExcess(deps, (await countBlocks(trx)) + 1)
      return changes
    })
    if (written !== undefined) await deps.applied()
    const row = written ?? before!
    if (row.block === null) return reply.code(204).send()
    if (before === undefined || before.block === null)
      reply.code(201).header('location', `/api/svc/suppliers/${id}/`)
    return reply.header('etag', etagOf(row)).send(resource(row))
  }

  /** A change of a supplier that exists, based on what the client has read. */
  const replacing =
    (after: (row: Block, request: FastifyRequest) => Block) =>
    async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      const id = idOf(request)
      refuseFile(deps, id)
      return changeOne(request, reply, id, (row) => {
        if (row === undefined || row.block === null) throw unknownSupplier()
        refuseOutdated(request, row, !isDryRun(request))
        const block = withId(after(row.block, request), id)
        refuseFaults(deps.check(block))
        return changeOf(id, 'supplier_update', row.block, block)
      })
    }

  async function create(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const block = blockOf(jsonOf(request, maxSuppliers))
    const { id } = block
    if (typeof id === 'string') refuseFile(deps, id)
    refuseFaults(deps.check(block))
    return changeOne(request, reply, id as string, (row) => {
      if (row !== undefined && row.block !== null)
        throw new Problem('exists', {
          title: 'A supplier of this id exists',
          faults: [{ pointer: '/id', detail: `${id} exists: PUT or PATCH changes it` }],
        })
      refuseReserved(row, block)
      return changeOf(id as string, 'supplier_create', null, block)
    })
  }

  async function remove(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const id = idOf(request)
    return changeOne(request, reply, id, (row) => {
      // A supplier of the store may be deleted while one of the file hides it.
      if (row === undefined || row.block === null) {
        refuseFile(deps, id)
        throw unknownSupplier()
      }
      refuseOutdated(request, row, !isDryRun(request))
      return changeOf(id, 'supplier_delete', row.block, null)
    })
  }

  async function revert(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const id = idOf(request)
    const result = revertSchema.safeParse(jsonOf(request))
    if (!result.success)
      throw malformed([{ pointer: '/version', detail: 'must be the number of a version' }])
    const { version } = result.data
    refuseFile(deps, id)
    const [old] = await readVersions(store.db, id, { before: version + 1, limit: 1 })
    if (old === undefined) throw unknownSupplier()
    if (old.version !== version || old.block === null)
      throw new Problem('no_version', {
        faults: [
          { pointer: '/version', detail: `version ${version} is none that the supplier had` },
        ],
      })
    const { block } = old
    refuseFaults(deps.check(block))
    return changeOne(request, reply, id, (row) => {
      if (row !== undefined) refuseOutdated(request, row, false)
      refuseReserved(row, block)
      return changeOf(id, 'supplier_revert', row?.block ?? null, block)
    })
  }

  async function applyList(request: FastifyRequest, reply: FastifyReply) {
    const list = listOf(await longListOf(request, maxSuppliers))
    await listFaults(deps, list)
    const wanted = request.headers['if-match']
    const plan = async (current: ReadonlyMap<string, StoredBlock>) => {
      if (wanted !== undefined && !matches(wanted, listTag([...current.values()])))
        throw new Problem('outdated', { title: 'A supplier has changed since they were read' })
      return planList(deps, list, current)
    }
    const dryRun = isDryRun(request)
    let planned: Awaited<ReturnType<typeof planList>> | null = null
    if (dryRun) {
      const rows = await readBlocks(store.db)
      planned = await plan(new Map(rows.map((row) => [row.id, row])))
    } else {
      const written = await changeBlocks(store, now(), authorOf(request), null, async (current) => {
        planned = await plan(current)
        return planned.changes
      })
      if (written.length > 0) await deps.applied()
    }
    const { changes: _changes, ...result } = planned!
    return reply.send({ dryRun, ...result })
  }

  /** Of the last change of any supplier of the API. */
  const listTag = (rows: readonly StoredBlock[]) =>
    `"${rows.reduce((newest, { n }) => Math.max(newest, n), 0)}"`

  async function list(request: FastifyRequest, reply: FastifyReply) {
    const caller = request.caller!
    const rows = await readBlocks(store.db)
    const stored = rows.filter(
      ({ id, block, account }) => block !== null && !deps.inFile(id) && canSee(caller, account),
    )
    const file = deps.fileSuppliers().filter(({ account }) => canSee(caller, account))
    const storedVersions = new Map(
      rows.filter(({ block }) => block !== null).map(({ id, version }) => [id, version]),
    )
    const all = [
      ...file.map(({ id }) => ({ id, body: ofFile(id, storedVersions.get(id)) })),
      ...stored.map((row) => ({ id: row.id, body: resource(row) })),
    ].sort((one, other) => (one.id < other.id ? -1 : 1))
    return reply.header('etag', listTag(rows)).send(all.map(({ body }) => body))
  }

  const ofFile = (id: string, storedVersion?: number) => ({
    ...deps.shown(id),
    origin: 'file',
    ...(storedVersion === undefined ? {} : { stored_version: storedVersion }),
  })

  async function one(request: FastifyRequest, reply: FastifyReply) {
    const id = idOf(request)
    const caller = request.caller!
    const row = await readBlock(store.db, id)
    const stored = row !== null && row.block !== null ? row : null
    if (deps.inFile(id)) {
      const { account } = deps.fileSuppliers().find((each) => each.id === id)!
      if (!canSee(caller, account)) throw unknownSupplier()
      if (stored !== null) reply.header('etag', etagOf(stored))
      return reply.send(ofFile(id, stored?.version))
    }
    if (stored === null || !canSee(caller, stored.account)) throw unknownSupplier()
    return reply.header('etag', etagOf(stored)).send(resource(stored))
  }

  async function history(request: FastifyRequest) {
    const id = idOf(request)
    const { limit, before = Number.MAX_SAFE_INTEGER } = queryOf(pageSchema, request)
    const row = await readBlock(store.db, id)
    if (row === null || !canSee(request.caller!, row.account)) throw unknownSupplier()
    // One more, with which the oldest of the page is compared.
    const versions = await readVersions(store.db, id, { before, limit: limit + 1 })
    // The supplier may have been another account's; a deletion belongs to the account of the version before.
    const isVisible = (block: Block | null | undefined) =>
      block != null && canSee(request.caller!, accountOf(block))
    return versions.slice(0, limit).flatMap(({ block, at, ...version }, index) => {
      const before = versions[index + 1]?.block ?? null
      if (!isVisible(block ?? before)) return []
      const difference = blockDifferences(isVisible(before) ? before : null, block)
      return [{ ...version, at: new Date(at).toISOString(), supplier: block, difference }]
    })
  }

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
      handler: list,
    },
    {
      ...{ method: 'POST', path: '/api/svc/suppliers/', id: 'addSupplier', tag, role },
      summary: 'Adds a supplier',
      description:
        'The keys are those of `suppliers[]` in the configuration file. Secrets are references, `{"file": "…"}` or `"${NAME}"`, which each node reads for itself. Every node acts on the supplier within two seconds. Account `*` only.',
      query: dryRunSchema,
      body: content(sentSchema, example),
      answers: { 200: whole('A dry run'), 201: whole('The supplier') },
      problems: [409, 422, 503],
      handler: ofAllAccounts(create),
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
      handler: ofAllAccounts(applyList),
    },
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
      handler: one,
    },
    {
      ...{ method: 'PUT', path, id: 'replaceSupplier', tag, role, params },
      summary: 'Replaces the configuration of a supplier',
      description: 'Account `*` only.',
      query: dryRunSchema,
      headers: ifMatch('428 without it, '),
      body: content(sentSchema, example),
      answers: { 200: whole('The supplier after the change') },
      problems: [404, 409, 412, 422, 428, 503],
      handler: ofAllAccounts(replacing((_row, request) => blockOf(jsonOf(request, maxSuppliers)))),
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
      answers: { 200: whole('The supplier after the change') },
      problems: [404, 409, 412, 422, 428, 503],
      handler: ofAllAccounts(
        replacing((row, request) =>
          blockOf(mergePatch(row, blockOf(jsonOf(request, maxSuppliers)))),
        ),
      ),
    },
    {
      ...{ method: 'DELETE', path, id: 'deleteSupplier', tag, role, params },
      summary: 'Deletes a supplier',
      description:
        'Bid requests are answered 404 from then on. Its ledger and its history stay, and the id can be used again only by its account. Account `*` only.',
      query: dryRunSchema,
      headers: ifMatch('428 without it, '),
      answers: {
        200: whole('A dry run'),
        204: { description: 'The supplier is deleted' },
      },
      problems: [404, 409, 412, 428, 503],
      handler: ofAllAccounts(remove),
    },
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
      handler: history,
    },
    {
      ...{ method: 'POST', path: `${path}revert/`, id: 'revertSupplier', tag, role, params },
      summary: 'Returns a supplier to one of its versions, also after a deletion',
      description: 'Account `*` only.',
      query: dryRunSchema,
      headers: ifMatch(''),
      body: { schema: revertSchema, example: { version: 2 } },
      answers: {
        200: whole('The supplier after the change'),
        201: whole('The supplier, which was deleted before'),
      },
      problems: [404, 409, 412, 422, 503],
      handler: ofAllAccounts(revert),
    },
  ]
}

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
