/** `/api/svc/ssp/`: reads and changes suppliers. A change is atomic, under the lock of the supplier. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { problem } from '../http/problem.ts'
import { changeSupplier, readSuppliers, type SupplierRows } from '../store/suppliers.ts'
import {
  type Access,
  entryOf,
  find,
  type ListedSupplier,
  malformed,
  notFound,
  visible,
} from './access.ts'
import { type Parsed, parsed } from './body.ts'
import { type ChangeResult, planCreate, planUpdate } from './rules.ts'
import { createSchema, type SupplierResource, updateSchema } from './schema.ts'

const resource = (
  { id, name, name_external }: ListedSupplier,
  { seats, datacenters }: Pick<SupplierRows, 'seats' | 'datacenters'>,
): SupplierResource => ({ id, name, name_external, dsp_seats: seats, datacenters })

const etagOf = ({ revision }: SupplierRows) => `"${revision}"`

/** RFC 9110 13.1.1: `*` or a list of strong validators. */
const matches = (header: string, etag: string) =>
  header.trim() === '*' || header.split(',').some((each) => each.trim() === etag)

class Refused extends Error {
  readonly result: Extract<ChangeResult, { ok: false }>

  constructor(result: Extract<ChangeResult, { ok: false }>) {
    super(result.code)
    this.result = result
  }
}
class Outdated extends Error {}

export function supplierCalls(access: Access) {
  const { store, changed, now } = access

  async function list(request: FastifyRequest): Promise<SupplierResource[]> {
    const suppliers = visible(access, request)
    const rows = await readSuppliers(
      store,
      suppliers.map(({ id }) => id),
    )
    return suppliers.map((supplier, at) => resource(supplier, rows[at]!))
  }

  async function one(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const supplier = find(access, request)
    if (supplier === undefined) return notFound(reply)
    const [rows] = await readSuppliers(store, [supplier.id])
    return reply.header('etag', etagOf(rows!)).send(resource(supplier, rows!))
  }

  async function change<T>(
    request: FastifyRequest,
    reply: FastifyReply,
    action: 'create' | 'update',
    read: (body: unknown) => Parsed<T>,
    decide: (rows: SupplierRows, body: T, supplier: ListedSupplier) => ChangeResult,
  ): Promise<FastifyReply> {
    const supplier = find(access, request)
    if (supplier === undefined) return notFound(reply)
    const body = read(request.body)
    if ('faults' in body) return malformed(reply, body.faults)
    const wanted = request.headers['if-match']
    try {
      const rows = await changeSupplier(store, supplier.id, now(), (current) => {
        if (wanted !== undefined && !matches(wanted, etagOf(current))) throw new Outdated()
        const result = decide(current, body.value, supplier)
        if (!result.ok) throw new Refused(result)
        if (!result.changed) return null
        const before = resource(supplier, current)
        const after = resource(supplier, result.after)
        const entry = { ...entryOf(request, supplier.id, action), before, after }
        return { after: result.after, entry }
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
      const { status, code, title, faults } = error.result
      return problem(reply, status, code, title, body.named(faults))
    }
  }

  return {
    list,
    one,
    create: (request: FastifyRequest, reply: FastifyReply) =>
      change(request, reply, 'create', (body) => parsed(body, createSchema), planCreate),
    put: (request: FastifyRequest, reply: FastifyReply) =>
      change(request, reply, 'update', (body) => parsed(body, updateSchema), planUpdate),
  }
}
