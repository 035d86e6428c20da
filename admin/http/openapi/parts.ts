/** Parts that operations of the API document share: schemas, error responses, parameters. */
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

/**
 * The JSON Schema of a zod schema. OpenAPI 3.1 uses the same dialect; `$schema` does not belong into a part of a
 * document. With `input`, fields with defaults are optional.
 */
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
  description: 'RFC 9457. `code` is stable and meant for programs, `title` for people.',
  properties: {
    type: { type: 'string', const: 'about:blank' },
    title: { type: 'string' },
    status: { type: 'integer', minimum: 400, maximum: 599 },
    code: { type: 'string' },
    errors: {
      type: 'array',
      description: 'One entry for each fault.',
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

/** The named schemas. Those of request bodies and resources come from the zod schemas that validate them. */
export const schemas: Json = {
  Problem: problemDocument,
  Supplier: jsonOf(supplierSchema, 'output'),
  SupplierCreate: jsonOf(createSchema, 'input'),
  SupplierUpdate: jsonOf(updateSchema, 'input'),
  Hold: jsonOf(holdSchema, 'input'),
  HoldState: jsonOf(holdStateSchema, 'output'),
  Models: jsonOf(modelsSchema, 'output'),
  ModelsRollback: jsonOf(rollbackSchema, 'input'),
  ModelsReset: jsonOf(resetSchema, 'input'),
  VoidedWin: jsonOf(voidedSchema, 'output'),
  AuditEntry: jsonOf(auditEntrySchema, 'output'),
}

/** Descriptions of error responses, by status. Operations list the statuses that they return. */
const errorDescriptions: Readonly<Record<string, string>> = {
  '400': 'The body or a parameter is not valid; `errors` lists every fault',
  '401': 'No valid access token',
  '403': 'The token is valid, but does not permit this call',
  '404': 'The resource does not exist, or belongs to another account',
  '405': 'The method is not allowed for this path; `Allow` lists the allowed ones',
  '409': 'An entry exists already',
  '410': 'The context is older than contextTtl',
  '412': 'The resource has changed since it was read',
  '413': 'The body is too large',
  '415': 'The media type of the body is not supported, or the body is encoded',
  '422': 'The change violates a rule; nothing was changed',
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
      const description = errorDescriptions[status]!
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

/** A call with a bearer token. */
export const guarded = [{ bearer: [] }]
export const open: readonly Json[] = []
