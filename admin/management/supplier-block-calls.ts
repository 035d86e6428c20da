/** What the calls of `/api/svc/suppliers/` do: they read and change rows of the store, and refuse what the file owns. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { queryOf } from '../http/call.ts'
import { jsonOf, longListOf } from '../http/json-body.ts'
import { jsonType, listJson } from '../http/long-json.ts'
import { malformed, Problem } from '../http/problem.ts'
import { canSee } from '../http/roles.ts'
import type { Store } from '../store/index.ts'
import {
  type Block,
  type BlockChange,
  changeBlocks,
  countBlocks,
  readBlock,
  readBlocks,
  readVersions,
  type StoredBlock,
} from '../store/supplier-blocks.ts'
import { storable } from '../store/tables.ts'
import { authorOf } from './access.ts'
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
  revisionOf,
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

export const dryRunSchema = z.strictObject({
  dryRun: z
    .enum(['true', 'false'], 'is true or false')
    .default('false')
    .describe('true: nothing is changed; the answer says what would be, or has the faults'),
})
export const pageSchema = z.strictObject({
  limit: z.int('is a whole number, 1 to 100').min(1).max(100).default(20).describe('Versions'),
  before: z
    .int('is a whole number')
    .min(1)
    .optional()
    .describe('Only versions below this one, such as the last of the previous page'),
})
export const revertSchema = z
  .strictObject({ version: z.int().min(1) })
  .meta({ id: 'SupplierRevert' })

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
  return list.map((item, index) => {
    if (item === null || typeof item !== 'object' || Array.isArray(item))
      throw malformed([{ pointer: `/${index}`, detail: 'must be a JSON object' }])
    return blockOf(item)
  })
}

const isDryRun = (request: FastifyRequest) => queryOf(dryRunSchema, request).dryRun === 'true'
const idOf = (request: FastifyRequest) => storable((request.params as { id: string }).id)
const resource = ({ block, version }: StoredBlock) => ({ ...block, origin: 'api', version })

/** Checks `If-Match` against the row, which it must name if `isRequired`. */
function refuseOutdated(request: FastifyRequest, row: StoredBlock, isRequired: boolean): void {
  const wanted = request.headers['if-match']
  if (wanted === undefined) {
    if (isRequired) throw new Problem('precondition_required')
  } else if (!matches(wanted, etagOf(row))) throw new Problem('outdated')
}

const listTag = (rows: Iterable<StoredBlock>) => `"${revisionOf(rows)}"`

export class SupplierBlockCalls {
  private readonly deps: BlockDeps

  constructor(deps: BlockDeps) {
    this.deps = deps
  }

  /** Decides with the stored row about one supplier, and writes, or says what would be written. */
  private async changeOne(
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
      const row = await readBlock(this.deps.store.db, id)
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
    const [written] = await changeBlocks(
      this.deps.store,
      this.deps.now(),
      author,
      [id],
      async (current, trx) => {
        const changes = decide(current)
        const adds = changes[0]?.action === 'supplier_create' || (before?.block ?? null) === null
        if (adds && changes.length > 0) refuseExcess(this.deps, (await countBlocks(trx)) + 1)
        return changes
      },
    )
    if (written !== undefined) await this.deps.applied()
    const row = written ?? before!
    if (row.block === null) return reply.code(204).send()
    if (before === undefined || before.block === null)
      reply.code(201).header('location', `/api/svc/suppliers/${id}/`)
    return reply.header('etag', etagOf(row)).send(resource(row))
  }

  /** A change of a supplier that exists, based on what the client has read. */
  private update(
    request: FastifyRequest,
    reply: FastifyReply,
    after: (row: Block) => Block,
  ): Promise<FastifyReply> {
    const id = idOf(request)
    refuseFile(this.deps, id)
    return this.changeOne(request, reply, id, (row) => {
      if (row === undefined || row.block === null) throw unknownSupplier()
      refuseOutdated(request, row, !isDryRun(request))
      const block = withId(after(row.block), id)
      refuseFaults(this.deps.check(block))
      return changeOf(id, 'supplier_update', row.block, block)
    })
  }

  readonly replace = async (request: FastifyRequest, reply: FastifyReply) =>
    this.update(request, reply, () => blockOf(jsonOf(request, maxSuppliers)))

  readonly patch = async (request: FastifyRequest, reply: FastifyReply) =>
    this.update(request, reply, (row) =>
      blockOf(mergePatch(row, blockOf(jsonOf(request, maxSuppliers)))),
    )

  readonly create = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const block = blockOf(jsonOf(request, maxSuppliers))
    const { id } = block
    if (typeof id === 'string') refuseFile(this.deps, id)
    refuseFaults(this.deps.check(block))
    return this.changeOne(request, reply, id as string, (row) => {
      if (row !== undefined && row.block !== null)
        throw new Problem('exists', {
          title: 'A supplier of this id exists',
          faults: [{ pointer: '/id', detail: `${id} exists: PUT or PATCH changes it` }],
        })
      refuseReserved(row, block)
      return changeOf(id as string, 'supplier_create', null, block)
    })
  }

  readonly remove = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const id = idOf(request)
    return this.changeOne(request, reply, id, (row) => {
      // A supplier of the store may be deleted while one of the file hides it.
      if (row === undefined || row.block === null) {
        refuseFile(this.deps, id)
        throw unknownSupplier()
      }
      refuseOutdated(request, row, !isDryRun(request))
      return changeOf(id, 'supplier_delete', row.block, null)
    })
  }

  readonly revert = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const id = idOf(request)
    const result = revertSchema.safeParse(jsonOf(request))
    if (!result.success)
      throw malformed([{ pointer: '/version', detail: 'must be the number of a version' }])
    const { version } = result.data
    refuseFile(this.deps, id)
    const [old] = await readVersions(this.deps.store.db, id, { before: version + 1, limit: 1 })
    if (old === undefined) throw unknownSupplier()
    if (old.version !== version || old.block === null)
      throw new Problem('no_version', {
        faults: [{ pointer: '/version', detail: `the supplier never had a version ${version}` }],
      })
    const { block } = old
    refuseFaults(this.deps.check(block))
    return this.changeOne(request, reply, id, (row) => {
      if (row !== undefined) refuseOutdated(request, row, false)
      refuseReserved(row, block)
      return changeOf(id, 'supplier_revert', row?.block ?? null, block)
    })
  }

  readonly applyList = async (request: FastifyRequest, reply: FastifyReply) => {
    const list = listOf(await longListOf(request, maxSuppliers))
    await listFaults(this.deps, list)
    const wanted = request.headers['if-match']
    /** The last one counts: a transaction may be repeated. */
    const plans: Awaited<ReturnType<typeof planList>>[] = []
    const plan = async (current: ReadonlyMap<string, StoredBlock>) => {
      if (wanted !== undefined && !matches(wanted, listTag(current.values())))
        throw new Problem('outdated', { title: 'A supplier has changed since they were read' })
      const planned = await planList(this.deps, list, current)
      plans.push(planned)
      return planned
    }
    const dryRun = isDryRun(request)
    if (dryRun) {
      const rows = await readBlocks(this.deps.store.db)
      await plan(new Map(rows.map((row) => [row.id, row])))
    } else {
      const written = await changeBlocks(
        this.deps.store,
        this.deps.now(),
        authorOf(request),
        null,
        async (current) => (await plan(current)).changes,
      )
      if (written.length > 0) await this.deps.applied()
    }
    const { changes: _changes, ...result } = plans.at(-1)!
    return reply.send({ dryRun, ...result })
  }

  readonly list = async (request: FastifyRequest, reply: FastifyReply) => {
    const caller = request.caller!
    const rows = await readBlocks(this.deps.store.db)
    const stored = rows.filter(
      ({ id, block, account }) =>
        block !== null && !this.deps.inFile(id) && canSee(caller, account),
    )
    const file = this.deps.fileSuppliers().filter(({ account }) => canSee(caller, account))
    const storedVersions = new Map(
      rows.filter(({ block }) => block !== null).map(({ id, version }) => [id, version]),
    )
    const all = [
      ...file.map(({ id }) => ({ id, body: () => this.ofFile(id, storedVersions.get(id)) })),
      ...stored.map((row) => ({ id: row.id, body: () => resource(row) })),
    ].sort((one, other) => (one.id < other.id ? -1 : 1))
    const list = await listJson(all.values().map(({ body }) => body()))
    return reply.header('etag', listTag(rows)).type(jsonType).send(list)
  }

  private readonly ofFile = (id: string, storedVersion?: number) => ({
    ...this.deps.shown(id),
    origin: 'file',
    ...(storedVersion === undefined ? {} : { stored_version: storedVersion }),
  })

  readonly one = async (request: FastifyRequest, reply: FastifyReply) => {
    const id = idOf(request)
    const caller = request.caller!
    const row = await readBlock(this.deps.store.db, id)
    const stored = row !== null && row.block !== null ? row : null
    if (this.deps.inFile(id)) {
      const { account } = this.deps.fileSuppliers().find((fileSupplier) => fileSupplier.id === id)!
      if (!canSee(caller, account)) throw unknownSupplier()
      if (stored !== null) reply.header('etag', etagOf(stored))
      return reply.send(this.ofFile(id, stored?.version))
    }
    if (stored === null || !canSee(caller, stored.account)) throw unknownSupplier()
    return reply.header('etag', etagOf(stored)).send(resource(stored))
  }

  readonly history = async (request: FastifyRequest) => {
    const id = idOf(request)
    const { limit, before = Number.MAX_SAFE_INTEGER } = queryOf(pageSchema, request)
    const row = await readBlock(this.deps.store.db, id)
    if (row === null || !canSee(request.caller!, row.account)) throw unknownSupplier()
    // One more, with which the oldest of the page is compared.
    const versions = await readVersions(this.deps.store.db, id, { before, limit: limit + 1 })
    // The supplier may have been another account's; a deletion belongs to the account of the version before.
    const isVisible = (block: Block | null | undefined) =>
      block != null && canSee(request.caller!, accountOf(block))
    return versions.slice(0, limit).flatMap(({ block, at: time, ...version }, index) => {
      const before = versions[index + 1]?.block ?? null
      if (!isVisible(block ?? before)) return []
      const difference = blockDifferences(isVisible(before) ? before : null, block)
      return [{ ...version, at: new Date(time).toISOString(), supplier: block, difference }]
    })
  }
}
