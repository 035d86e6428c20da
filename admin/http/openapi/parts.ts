/** What the operations of the API document share: schemas out of those that validate, refusals, parameters. */
import * as z from 'zod'
import {
  auditEntrySchema,
  createSchema,
  holdSchema,
  holdStateSchema,
  modelsSchema,
  resetSchema,
  rollbackSchema,
  supplierSchema,
  updateSchema,
  voidedSchema,
} from '../../management/schema.ts'

export type Json = Readonly<Record<string, unknown>>

/** OpenAPI 3.1 speaks the dialect that zod writes; each schema's own `$schema` is not for a part of a document. */
export function jsonOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io })
  return rest
}

export const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` })

export const body = (schema: Json, example: unknown, type = 'application/json'): Json => ({
  [type]: { schema, example },
})

const problemDocument = {
  type: 'object',
  description: 'RFC 9457. `code` is stable: programs read it, people read the title.',
  properties: {
    type: { type: 'string', const: 'about:blank' },
    title: { type: 'string' },
    status: { type: 'integer', minimum: 400, maximum: 599 },
    code: { type: 'string' },
    errors: {
      type: 'array',
      description: 'One entry a fault.',
      items: {
        type: 'object',
        properties: {
          pointer: {
            type: 'string',
            description: 'JSON pointer into the body (RFC 6901), or the name of a parameter',
          },
          detail: { type: 'string' },
        },
        required: ['pointer', 'detail'],
      },
    },
  },
  required: ['type', 'title', 'status', 'code'],
}

/** With the parts that PUT and POST share under the names that DESIGN of clients wants: one schema a resource. */
export const schemas: Json = {
  Problem: problemDocument,
  Supplier: jsonOf(supplierSchema, 'output'),
  SupplierCreate: aliases(jsonOf(createSchema, 'input')),
  SupplierUpdate: aliases(jsonOf(updateSchema, 'input')),
  Hold: jsonOf(holdSchema, 'input'),
  HoldState: jsonOf(holdStateSchema, 'output'),
  Models: jsonOf(modelsSchema, 'output'),
  ModelsRollback: jsonOf(rollbackSchema, 'input'),
  ModelsReset: jsonOf(resetSchema, 'input'),
  VoidedWin: jsonOf(voidedSchema, 'output'),
  AuditEntry: jsonOf(auditEntrySchema, 'output'),
}

/** `svc` and `the service` are other names of the same list; it is sent once. */
function aliases(schema: Json): Json {
  const properties = schema['properties'] as Record<string, Json>
  const { datacenters } = properties
  const other = { ...datacenters, description: 'The same list as `datacenters`: send one of them.' }
  return { ...schema, properties: { ...properties, svc: other, 'the service': other } }
}

/** Titles of refusals, by status and code; the operations name which of them they give. */
const refusals: Readonly<Record<string, string>> = {
  '400': 'The body or a parameter is not what this call takes; every fault is named',
  '401': 'No valid access token',
  '403': 'The token is valid, but not for this call',
  '404': 'No such resource, or one of another account',
  '405': 'Another method is for this path; `Allow` says which',
  '409': 'What exists already is not created',
  '410': 'The context is older than contextTtl',
  '412': 'The resource has changed since it was read',
  '413': 'The body is too large',
  '415': 'The body is of another media type, or encoded',
  '422': 'A rule is broken: nothing was changed',
  '503': 'The store or the issuer cannot be reached: try again after `Retry-After` seconds',
}

const headersOf: Readonly<Record<string, Json>> = {
  '401': {
    'WWW-Authenticate': { description: 'RFC 6750 3', schema: { type: 'string' } },
  },
  '503': {
    'Retry-After': { description: 'Seconds', schema: { type: 'integer' } },
  },
}

export function problems(...statuses: number[]): Json {
  return Object.fromEntries(
    statuses.map((status) => {
      const description = refusals[status]!
      const example = { type: 'about:blank', title: description, status, code: codes[status] }
      const headers = headersOf[status]
      return [
        String(status),
        {
          description,
          ...(headers === undefined ? {} : { headers }),
          content: body(ref('Problem'), example, 'application/problem+json'),
        },
      ]
    }),
  )
}

const codes: Readonly<Record<number, string>> = {
  400: 'malformed',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'unknown_supplier',
  405: 'method_not_allowed',
  409: 'exists',
  410: 'expired',
  412: 'outdated',
  413: 'too_large',
  415: 'unsupported_media_type',
  422: 'not_editable',
  503: 'store_unavailable',
}

export const inPath = (name: string, description: string, example: string): Json => ({
  name,
  in: 'path',
  required: true,
  description,
  schema: { type: 'string' },
  example,
})

export const inQuery = (
  name: string,
  description: string,
  schema: Json,
  required = false,
): Json => ({
  name,
  in: 'query',
  required,
  description,
  schema,
})

export const etag: Json = {
  ETag: { description: 'For `If-Match`', schema: { type: 'string' }, example: '"3"' },
}

/** A call of the API: either scheme is a bearer token. */
export const guarded = [{ bearer: [] }]
export const open: readonly Json[] = []
