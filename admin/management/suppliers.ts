/** `/api/svc/ssp/`: reads and changes suppliers. A change is atomic, under the lock of the supplier. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { type Answer, jsonAnswer, type Route } from '../http/call.ts'
import { namedBodyOf } from '../http/json-body.ts'
import { Problem } from '../http/problem.ts'
import { changeSupplier, readSuppliers, type SupplierRows } from '../store/suppliers.ts'
import { type Access, changeOf, find, type ListedSupplier, visible } from './access.ts'
import { type ChangeResult, planCreate, planUpdate } from './rules.ts'
import { createSchema, type SupplierResource, supplierSchema, updateSchema } from './schema.ts'

const resource = (
  { id, name, name_external }: ListedSupplier,
  { seats, datacenters }: Pick<SupplierRows, 'seats' | 'datacenters'>,
): SupplierResource => ({ id, name, name_external, dsp_seats: seats, datacenters })

const etagOf = ({ revision }: SupplierRows) => `"${revision}"`

/** RFC 9110 13.1.1: `*` or a list of strong validators. */
export const matches = (header: string, etag: string) =>
  header.trim() === '*' || header.split(',').some((tag) => tag.trim() === etag)

const example: SupplierResource = {
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
const params = { id: ['The id of the supplier', 'acme'] } as const
const headers = {
  'If-Match': 'The `ETag` that the change is based on; 412 if the supplier has changed since.',
}
const supplierAnswer = (description: string): Answer => ({
  description,
  headers: {
    ETag: { description: 'For `If-Match`', schema: { type: 'string' }, example: '"3"' },
  },
  content: { schema: supplierSchema, example },
})

class SupplierCalls {
  private readonly access: Access

  constructor(access: Access) {
    this.access = access
  }

  readonly list = async (request: FastifyRequest): Promise<SupplierResource[]> => {
    const suppliers = visible(this.access, request)
    const rows = await readSuppliers(
      this.access.store,
      suppliers.map(({ id }) => id),
    )
    return suppliers.map((supplier, index) => resource(supplier, rows[index]!))
  }

  readonly one = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const supplier = find(this.access, request)
    const [rows] = await readSuppliers(this.access.store, [supplier.id])
    return reply.header('etag', etagOf(rows!)).send(resource(supplier, rows!))
  }

  async change<T>(
    request: FastifyRequest,
    reply: FastifyReply,
    action: 'create' | 'update',
    schema: z.ZodType<T>,
    decide: (rows: SupplierRows, body: T, supplier: ListedSupplier) => ChangeResult,
  ): Promise<FastifyReply> {
    const { store, changed, now } = this.access
    const supplier = find(this.access, request)
    const { value, named } = namedBodyOf(schema, request)
    const wanted = request.headers['if-match']
    const rows = await changeSupplier(store, supplier.id, now(), (current) => {
      if (wanted !== undefined && !matches(wanted, etagOf(current))) throw new Problem('outdated')
      const result = decide(current, value, supplier)
      if (!result.ok) {
        const { code, faults } = result.problem
        throw new Problem(code, { faults: named(faults) })
      }
      if (!result.changed) return null
      const before = resource(supplier, current)
      const after = resource(supplier, result.after)
      const entry = { ...changeOf(request, supplier.id, action), before, after }
      return { after: result.after, entry }
    })
    changed()
    return reply
      .code(action === 'create' ? 201 : 200)
      .header('etag', etagOf(rows))
      .send(resource(supplier, rows))
  }
}

export function supplierRoutes(access: Access): Route[] {
  const calls = new SupplierCalls(access)
  const path = '/api/svc/ssp/{id}/'
  const tag = 'management'
  return [
    {
      method: 'GET',
      path: '/api/svc/ssp/',
      id: 'listSuppliers',
      tag,
      summary: "The suppliers of the caller's account",
      role: 'viewer',
      answers: {
        200: jsonAnswer('The suppliers that the account may see', z.array(supplierSchema), [
          example,
        ]),
      },
      problems: [503],
      handler: calls.list,
    },
    {
      method: 'GET',
      path,
      id: 'readSupplier',
      tag,
      summary: 'One supplier',
      role: 'viewer',
      params,
      answers: { 200: supplierAnswer('The supplier') },
      problems: [404, 503],
      handler: calls.one,
    },
    {
      method: 'POST',
      path,
      id: 'createBuyer',
      tag,
      summary: 'Adds buyers (seats) and new data centers',
      description:
        'All or nothing. A seat or data center that exists is ignored if nothing in it differs; otherwise it is 409. `client_qps` of a location must not exceed the sum of its seats’ `qps`; a seat with null there has no limit, so the location has none.',
      role: 'api',
      params,
      headers,
      body: {
        schema: createSchema,
        example: { dsp_seats: example.dsp_seats, datacenters: example.datacenters },
      },
      answers: { 201: supplierAnswer('The supplier after the change') },
      problems: [404, 409, 412, 422, 503],
      handler: (request, reply) => calls.change(request, reply, 'create', createSchema, planCreate),
    },
    {
      method: 'PUT',
      path,
      id: 'updateSupplier',
      tag,
      summary: 'Activates or deactivates buyers and data centers, sets allotments',
      description:
        'Seats are matched by `name`, data centers by `location`. Only `dsp_seats[].is_active`, `datacenters[].is_active` and `datacenters[].client_qps` may differ from the stored values. Omitted fields keep their values.',
      role: 'api',
      params,
      headers,
      body: {
        schema: updateSchema,
        example: {
          dsp_seats: [{ name: 'seat-1', is_active: false }],
          datacenters: [{ location: 'us-east', client_qps: null }],
        },
      },
      answers: { 200: supplierAnswer('The supplier after the change') },
      problems: [404, 412, 422, 503],
      handler: (request, reply) => calls.change(request, reply, 'update', updateSchema, planUpdate),
    },
  ]
}
