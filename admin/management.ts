/** `/api/svc/ssp/`: suppliers, their seats and data centers; the hold switch; the audit trail (CONTRACT 8). */
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  preHandlerAsyncHookHandler,
} from 'fastify'
import type * as z from 'zod'
import { escapePart, parseJson } from './json.ts'
import { creation, update, type Verdict } from './management/rules.ts'
import {
  createSchema,
  holdSchema,
  type SupplierResource,
  updateSchema,
} from './management/schema.ts'
import type { Caller } from './ports.ts'
import { type ProblemFault, problem } from './problem.ts'
import type { Store } from './store/index.ts'
import {
  type AuditEntry,
  changeSupplier,
  readHolds,
  readSupplier,
  type SupplierRows,
  setHold,
} from './store/suppliers.ts'

export interface ListedSupplier {
  id: string
  name: string
  name_external: string
  account: string | null
}

export interface ManagementDeps {
  store: Store
  /** The file's suppliers, as they stand after the last reload. */
  suppliers: () => readonly ListedSupplier[]
  bearer: preHandlerAsyncHookHandler
  operator: preHandlerAsyncHookHandler
  /** Called after a change of this node's own: its effect need not wait for the next look. */
  changed: () => void
  now: () => number
}

const bodyLimit = 1024 * 1024
type Request = FastifyRequest & { caller?: Caller }

const resource = (
  { id, name, name_external }: ListedSupplier,
  rows: SupplierRows,
): SupplierResource => ({
  id,
  name,
  name_external,
  dsp_seats: rows.seats,
  datacenters: rows.datacenters,
})

const etagOf = (rows: SupplierRows) => `"${rows.revision}"`

class Refused extends Error {
  readonly verdict: Extract<Verdict, { ok: false }>

  constructor(verdict: Extract<Verdict, { ok: false }>) {
    super(verdict.code)
    this.verdict = verdict
  }
}
class Outdated extends Error {}

/** The list of data centers may be sent as `datacenters`, `svc` or `the service`; they are the same list. */
function aliased(value: unknown): { value: unknown } | { faults: ProblemFault[] } {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    return { faults: [{ pointer: '', detail: 'a JSON object is wanted' }] }
  const names = ['datacenters', 'svc', 'the service'].filter((name) => Object.hasOwn(value, name))
  if (names.length > 1)
    return {
      faults: names.map((name) => ({
        pointer: `/${name}`,
        detail: 'the list of data centers is sent once',
      })),
    }
  const [name] = names
  if (name === undefined || name === 'datacenters') return { value }
  const { [name]: list, ...rest } = value as Record<string, unknown>
  return { value: { ...rest, datacenters: list } }
}

function parsed<T>(body: unknown, schema: z.ZodType<T>): { value: T } | { faults: ProblemFault[] } {
  const json = parseJson(Buffer.isBuffer(body) ? body : Buffer.alloc(0))
  if ('faults' in json) return json
  const named = aliased(json.value)
  if ('faults' in named) return named
  const result = schema.safeParse(named.value)
  if (result.success) return { value: result.data }
  return {
    faults: result.error.issues.flatMap((issue): ProblemFault[] => {
      const at = issue.path.map((part) => `/${escapePart(String(part))}`).join('')
      return issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => ({
            pointer: `${at}/${escapePart(key)}`,
            detail: 'this field is not known',
          }))
        : [{ pointer: at, detail: issue.message }]
    }),
  }
}

export function management(deps: ManagementDeps): FastifyPluginAsync {
  const { store, suppliers, bearer, operator, changed, now } = deps

  /** Another account's supplier is as absent as one that is not there. */
  const visible = ({ caller }: Request) =>
    suppliers().filter(({ account }) => caller!.account === '*' || account === caller!.account)
  const find = (request: Request) =>
    visible(request).find(({ id }) => id === (request.params as { id: string }).id)

  const notFound = (reply: FastifyReply) =>
    problem(reply, 404, 'unknown_supplier', 'No such supplier')
  const malformed = (reply: FastifyReply, faults: ProblemFault[]) =>
    problem(reply, 400, 'malformed', 'The body is not what this call takes', faults)

  function entryOf(
    request: Request,
    supplier: string,
    action: string,
    before: unknown,
    after: unknown,
  ): AuditEntry {
    const { caller } = request
    return {
      who: caller!.subject,
      account: caller!.account,
      supplier,
      action,
      before,
      after,
      requestId: String(request.id),
    }
  }

  async function change(
    request: Request,
    reply: FastifyReply,
    action: 'create' | 'update',
    decide: (rows: SupplierRows, supplier: ListedSupplier) => Verdict,
  ): Promise<FastifyReply> {
    const supplier = find(request)
    if (supplier === undefined) return notFound(reply)
    const wanted = request.headers['if-match']
    try {
      const rows = await changeSupplier(store, supplier.id, now(), (standing) => {
        if (wanted !== undefined && !matches(wanted, etagOf(standing))) throw new Outdated()
        const verdict = decide(standing, supplier)
        if (!verdict.ok) throw new Refused(verdict)
        if (!verdict.changed) return null
        const before = resource(supplier, standing)
        const after = resource(supplier, { ...verdict.after, revision: 0 })
        return { after: verdict.after, entry: entryOf(request, supplier.id, action, before, after) }
      })
      changed()
      return reply
        .code(action === 'create' ? 201 : 200)
        .header('etag', etagOf(rows))
        .send(resource(supplier, rows))
    } catch (error) {
      if (error instanceof Outdated)
        return problem(reply, 412, 'outdated', 'The supplier has changed since it was read')
      if (!(error instanceof Refused)) throw error
      const { status, code, title, faults } = error.verdict
      return problem(reply, status, code, title, faults)
    }
  }

  async function list(request: Request): Promise<SupplierResource[]> {
    return Promise.all(
      visible(request).map(async (supplier) =>
        resource(supplier, await readSupplier(store.db, supplier.id)),
      ),
    )
  }

  async function one(request: Request, reply: FastifyReply): Promise<FastifyReply> {
    const supplier = find(request)
    if (supplier === undefined) return notFound(reply)
    const rows = await readSupplier(store.db, supplier.id)
    return reply.header('etag', etagOf(rows)).send(resource(supplier, rows))
  }

  async function create(request: Request, reply: FastifyReply): Promise<FastifyReply> {
    if (find(request) === undefined) return notFound(reply)
    const body = parsed(request.body, createSchema)
    if ('faults' in body) return malformed(reply, body.faults)
    return change(request, reply, 'create', (rows, names) => creation(rows, body.value, names))
  }

  async function put(request: Request, reply: FastifyReply): Promise<FastifyReply> {
    if (find(request) === undefined) return notFound(reply)
    const body = parsed(request.body, updateSchema)
    if ('faults' in body) return malformed(reply, body.faults)
    return change(request, reply, 'update', (rows, names) => update(rows, body.value, names))
  }

  async function holds(request: Request): Promise<{ supplier: string; hold: boolean }[]> {
    const held = await readHolds(store.db)
    const ids = ['*', ...visible(request).map(({ id }) => id)]
    return ids.map((supplier) => ({ supplier, hold: held.has(supplier) }))
  }

  async function hold(request: Request, reply: FastifyReply): Promise<FastifyReply> {
    const { id } = request.params as { id: string }
    const all = id === '*'
    // All integrations are more than one account's.
    if (all && request.caller!.account !== '*')
      return problem(reply, 403, 'forbidden', 'Only an account that sees all suppliers holds all')
    if (!all && find(request) === undefined) return notFound(reply)
    const body = parsed(request.body, holdSchema)
    if ('faults' in body) return malformed(reply, body.faults)
    const before = (await readHolds(store.db)).has(id)
    await setHold(
      store,
      now(),
      body.value.hold,
      entryOf(request, id, 'hold', before, body.value.hold),
    )
    changed()
    return reply.send({ supplier: id, hold: body.value.hold })
  }

  async function audit(request: Request, reply: FastifyReply): Promise<FastifyReply> {
    const { limit = '100', before } = request.query as Record<string, string | undefined>
    const wanted = Number(limit)
    const last = before === undefined ? Number.MAX_SAFE_INTEGER : Number(before)
    if (!Number.isSafeInteger(wanted) || wanted < 1 || wanted > 1000 || !Number.isSafeInteger(last))
      return problem(reply, 400, 'malformed', 'limit is 1 to 1000, before is an id', [])
    let query = store.db
      .selectFrom('audit')
      .selectAll()
      .where('id', '<', last)
      .orderBy('id', 'desc')
      .limit(wanted)
    if (request.caller!.account !== '*') {
      const ids = visible(request).map(({ id }) => id)
      if (ids.length === 0) return reply.send([])
      query = query.where('supplier', 'in', ids)
    }
    const rows = await query.execute()
    return reply.send(
      rows.map(({ before: was, after: is, at, request_id, ...row }) => ({
        ...row,
        at: new Date(Number(at)).toISOString(),
        request_id,
        before: was === null ? null : JSON.parse(was),
        after: is === null ? null : JSON.parse(is),
      })),
    )
  }

  return async (app) => {
    // Bodies stay bytes until `parsed` has looked at them: duplicate keys and encodings are faults.
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(
      'application/json',
      { parseAs: 'buffer', bodyLimit },
      async (_request: FastifyRequest, body: Buffer) => body,
    )
    const forms = (path: string) => [path, path.replace(/\/$/, '')]
    const route = (
      method: 'GET' | 'POST' | 'PUT',
      path: string,
      handler: (request: Request, reply: FastifyReply) => Promise<unknown>,
      check = bearer,
    ) => {
      for (const url of forms(path))
        app.route({ method, url, preHandler: check, bodyLimit, exposeHeadRoute: false, handler })
    }
    route('GET', '/api/svc/ssp/', list)
    route('GET', '/api/svc/ssp/:id/', one)
    route('POST', '/api/svc/ssp/:id/', create)
    route('PUT', '/api/svc/ssp/:id/', put)
    route('GET', '/api/svc/opd/', holds)
    route('PUT', '/api/svc/opd/:id/', hold, operator)
    route('GET', '/api/svc/audit/', audit)
  }
}

/** RFC 9110 13.1.1: `*` or a list of strong validators. */
function matches(header: string, etag: string): boolean {
  return header.trim() === '*' || header.split(',').some((each) => each.trim() === etag)
}
