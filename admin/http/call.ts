/** One definition for each call of the API: its route, the schemas that validate it, and its part of the API document. */
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  onRequestAsyncHookHandler,
  preHandlerAsyncHookHandler,
} from 'fastify'
import type * as z from 'zod'
import { compressed } from './compressed.ts'
import { rejectEncodedBody } from './hooks.ts'
import { takeJsonAsBytes } from './json-body.ts'
import { malformed, type ProblemFault } from './problem.ts'
import type { Caller, Role } from './roles.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    call?: Call
  }
  interface FastifyRequest {
    /** The authenticated caller; set before the handler of a call with a role runs. */
    caller?: Caller
  }
}

export interface Content {
  schema: z.ZodType
  example?: unknown
  /** `application/json` if absent. */
  type?: string
  /** `input` for an answer that has values as clients send them. Default: input in a request, output in an answer. */
  io?: 'input' | 'output'
}

export interface Answer {
  description: string
  headers?: Readonly<Record<string, object>>
  content?: Content | readonly Content[]
}

/**
 * An answer of JSON.
 *
 * @param description for the reference
 * @param schema of the body
 * @param example for the reference; it must match the schema
 */
export const jsonAnswer = (description: string, schema: z.ZodType, example?: unknown): Answer => ({
  description,
  content: { schema, example },
})

export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** `/api/svc/ssp/{id}/`. Calls below `/api/svc/` and `/opd/` also have the other trailing-slash form. */
  path: string
  id: string
  tag: 'management' | 'prices' | 'reports' | 'tokens' | 'service'
  summary: string
  description?: string
  /** null: the call needs no token. `optional`: a configuration may require one. */
  role: Role | null | { optional: Role }
  /** Description and example of each parameter of the path. */
  params?: Readonly<Record<string, readonly [description: string, example: string]>>
  query?: z.ZodObject
  /** Request headers with their descriptions. */
  headers?: Readonly<Record<string, string>>
  body?: Content & { optional?: true }
  answers: Readonly<Record<number, Answer>>
  /** Statuses of problem documents, besides those that every call with a role, a query or a body may have. */
  problems?: readonly number[]
}

export type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown

export interface Route extends Call {
  handler: Handler
  /** Whether a HEAD request is answered like a GET, which it is unless the GET has an effect. */
  head?: boolean
}

/** The hook that admits callers with a role. */
export type Authenticate = (role: Role) => preHandlerAsyncHookHandler

/** For calls that have no parameters. */
const refuseParameters: onRequestAsyncHookHandler = async ({ query }) => {
  const names = Object.keys(query as object)
  const faults = names.map((pointer) => ({ pointer, detail: 'the call has no parameters' }))
  if (faults.length > 0) throw malformed(faults)
}

/** Responses depend on the account, and change. */
const notStored: onRequestAsyncHookHandler = async (_request, reply) => {
  reply.header('cache-control', 'no-store')
}

/**
 * Adds a call to the listener: checks the token before the body, then path, query and body.
 *
 * @param authenticate null: the call needs no token
 * @param bodyLimit bytes; default: that of the listener
 */
export function addRoute(
  app: FastifyInstance,
  { handler, head = true, ...call }: Route,
  authenticate: Authenticate | null = null,
  bodyLimit?: number,
): void {
  const { method, path, role, query } = call
  // Not empty. The router compares the decoded value, which may contain a slash: `a%2Fb`.
  const url = path.replaceAll(/\{(\w+)\}/g, ':$1([^]+)')
  const bare = url.replace(/\/$/, '')
  const isApi = /^\/(api\/svc|opd)\//.test(path)
  // the token is checked before the body is read
  const onRequest = [
    ...(isApi ? [notStored] : []),
    ...(authenticate !== null && typeof role === 'string' ? [authenticate(role)] : []),
    ...(path.startsWith('/api/svc/') && query === undefined ? [refuseParameters] : []),
    ...(method === 'GET' || path.startsWith('/auth/') ? [] : [rejectEncodedBody]),
  ]
  for (const form of isApi ? [bare, `${bare}/`] : [url])
    app.route({
      method,
      url: form,
      onRequest,
      // notices of wins have answers of a few bytes, and are many
      ...(method === 'GET' && path.startsWith('/api/svc/') ? { onSend: compressed } : {}),
      exposeHeadRoute: head && method === 'GET',
      ...(bodyLimit === undefined ? {} : { bodyLimit }),
      config: { call },
      handler: handler as (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>,
    })
}

/** A plugin of calls whose bodies are JSON of at most `bodyLimit` bytes. */
export const jsonCalls =
  (routes: readonly Route[], authenticate: Authenticate, bodyLimit: number): FastifyPluginAsync =>
  async (app) => {
    takeJsonAsBytes(app, bodyLimit)
    for (const route of routes) addRoute(app, route, authenticate, bodyLimit)
  }

/** The definition of a value without `optional`, `default` and the like. */
function innermost(schema: z.core.$ZodType): z.core.$ZodTypeDef {
  const { innerType } = schema._zod.def as { innerType?: z.core.$ZodType }
  return innerType === undefined ? schema._zod.def : innermost(innerType)
}

/**
 * The parameters of a query, or a fault for each that is repeated, unknown, missing or not valid.
 *
 * @param schema of all parameters
 * @param query as Fastify has parsed it: texts, and lists of texts
 */
export function parsedQuery<S extends z.ZodObject>(
  schema: S,
  query: unknown,
): { value: z.output<S> } | { faults: ProblemFault[] } {
  const faults: ProblemFault[] = []
  const values = Object.create(null) as Record<string, unknown>
  for (const [name, sent] of Object.entries(query as Record<string, string | string[]>)) {
    const field = Object.hasOwn(schema.shape, name) ? schema.shape[name] : undefined
    if (Array.isArray(sent)) faults.push({ pointer: name, detail: `${name} is repeated` })
    else if (field !== undefined && innermost(field).type === 'number')
      values[name] = /^\d{1,16}$/.test(sent) ? Number(sent) : Number.NaN
    else values[name] = sent
  }
  const result = schema.safeParse(values)
  if (result.success && faults.length === 0) return { value: result.data }
  const known = Object.keys(schema.shape).join(', ')
  for (const issue of result.error?.issues ?? []) {
    const name = String(issue.path[0])
    if (issue.code === 'unrecognized_keys')
      for (const key of issue.keys)
        faults.push({ pointer: key, detail: `the parameters are ${known}` })
    else if (!faults.some(({ pointer }) => pointer === name))
      faults.push({
        pointer: name,
        detail: `${name} ${name in values ? issue.message : 'is missing'}`,
      })
  }
  const order = Object.keys(schema.shape)
  faults.sort((one, other) => order.indexOf(one.pointer) - order.indexOf(other.pointer))
  return { faults }
}

/**
 * The same; throws a problem that names every fault.
 *
 * @param schema of all parameters
 * @param request of a call with that query
 * @throws Problem `malformed`
 */
export function queryOf<S extends z.ZodObject>(schema: S, { query }: FastifyRequest): z.output<S> {
  const result = parsedQuery(schema, query)
  if ('faults' in result) throw malformed(result.faults)
  return result.value
}
