/**
 * `/api/openapi.json`: the API document, made from the calls of the registered routes, and `/api/docs`, a page that
 * shows it.
 */

import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { Lazy } from '../../opd/base/lazy.ts'
import { problemType } from '../../opd/base/problem-type.ts'
import { type Answer, addRoute, type Call, type Content, jsonAnswer, type Route } from './call.ts'
import {
  type Contents,
  documentPage,
  pagePolicy,
  type ShownDocument,
  type ShownOperation,
} from './document-page.ts'
import { problemSchema } from './problem.ts'
import { programVersion } from './version.ts'

type Json = Readonly<Record<string, unknown>>

/** Problem documents by status: `code` of the example, description, and headers. */
const problems: Readonly<Record<number, readonly [code: string, text: string, headers?: Json]>> = {
  400: ['malformed', 'The body or a parameter is not valid; `errors` lists every fault'],
  401: [
    'unauthorized',
    'No valid access token',
    { 'WWW-Authenticate': { description: 'RFC 6750 3', schema: { type: 'string' } } },
  ],
  403: ['forbidden', 'The token is valid, but does not permit this call'],
  404: ['unknown_supplier', 'The resource does not exist, or belongs to another account'],
  409: ['exists', 'An entry exists already'],
  410: ['expired', 'The context is older than contextTtl'],
  412: ['outdated', 'The resource has changed since it was read'],
  413: ['too_large', 'The body is too large'],
  415: [
    'unsupported_media_type',
    'The media type of the body is not supported, or the body is encoded',
  ],
  422: ['not_editable', 'The change violates a rule; nothing was changed'],
  428: [
    'precondition_required',
    '`If-Match` is missing: send the `ETag` that the change is based on',
  ],
  431: ['too_large', 'The head of the request is larger than 32 KiB'],
  503: [
    'store_unavailable',
    'The store or the issuer cannot be reached: try again after `Retry-After` seconds',
    { 'Retry-After': { description: 'Seconds', schema: { type: 'integer' } } },
  ],
}

const tags: Readonly<Record<Call['tag'], string>> = {
  management: 'Suppliers, buyers, data centers, holds, voids, audit',
  prices: 'Optimized Price Discovery',
  reports: 'Results of optimization, and single decisions',
  tokens: 'Access tokens of the embedded realm',
  service: 'Health, metrics, documents',
}

/** The statuses of a call's problem documents. */
const problemsOf = ({ role, body, problems = [] }: Call) => [
  ...(role === null ? [] : [400, 401, 403]),
  ...(body === undefined || role === null ? [] : [413, 415]),
  ...problems,
  431,
]

const bearer = {
  type: 'http',
  scheme: 'bearer',
  bearerFormat: 'JWT',
  description:
    'An access token of the issuer; the embedded realm has its discovery below `/auth/realms/`. Each call names the role that it needs: `viewer`, `api` or `operator`. Each role includes the ones before it. A token gives access to the suppliers of its account.',
}

function documentOf(calls: Iterable<Call>, version: string): ShownDocument {
  const schemas: Record<string, object> = {}
  const paths: ShownDocument['paths'] = {}

  /**
   * Schemas with an id become components. With `input`, fields with defaults are optional; `defaults`: whether they are
   * published. Generated clients demand each field of a body that has one.
   */
  function jsonOf(schema: z.ZodType, io: 'input' | 'output', defaults = true): object {
    const options: Parameters<typeof z.toJSONSchema>[1] = {
      io,
      override({ jsonSchema }) {
        if (!defaults) delete jsonSchema.default
      },
    }
    const text = JSON.stringify(z.toJSONSchema(z.array(schema), options))
    const { items, $defs } = JSON.parse(text.replaceAll('#/$defs/', '#/components/schemas/')) as {
      items: object
      $defs?: object
    }
    Object.assign(schemas, $defs)
    return items
  }
  const contentOf = (content: Content | readonly Content[], io: 'input' | 'output'): Contents =>
    Object.fromEntries(
      [content]
        .flat()
        .map(({ schema, example, type = 'application/json', io: form = io }) => [
          type,
          { schema: jsonOf(schema, form, false), ...(example === undefined ? {} : { example }) },
        ]),
    )
  const answerOf = ({ description, headers, content }: Answer) => ({
    description,
    ...(headers === undefined ? {} : { headers }),
    ...(content === undefined ? {} : { content: contentOf(content, 'output') }),
  })
  function problemOf(status: number) {
    const [code, description, headers] = problems[status]!
    const example = { type: problemType(code), title: description, status, code }
    const type = 'application/problem+json'
    return {
      description,
      ...(headers === undefined ? {} : { headers }),
      content: contentOf({ schema: problemSchema, example, type }, 'output'),
    }
  }
  function parametersOf({ params = {}, headers = {}, query }: Call) {
    const inQuery =
      query === undefined ? {} : (jsonOf(query, 'input') as z.core.JSONSchema.BaseSchema)
    return [
      ...Object.entries(params).map(([name, [description, example]]) => ({
        name,
        in: 'path',
        required: true,
        description,
        schema: { type: 'string' },
        example,
      })),
      ...Object.entries(headers).map(([name, description]) => ({
        name,
        in: 'header',
        description,
        schema: { type: 'string' },
      })),
      ...Object.entries(inQuery.properties ?? {}).map(([name, field]) => {
        const { description, ...schema } = field as z.core.JSONSchema.BaseSchema
        const required = inQuery.required?.includes(name) ?? false
        return { name, in: 'query', required, description, schema }
      }),
    ]
  }
  function operationOf(call: Call): ShownOperation {
    const { id, summary, description, tag, role, body } = call
    const parameters = parametersOf(call)
    const text = [description, typeof role === 'string' ? `Role \`${role}\`.` : undefined]
      .filter((part) => part !== undefined)
      .join(' ')
    // the roles of a scheme other than OAuth 2 (OpenAPI 3.1 4.8.30)
    const needs = (least: string) => [{ bearer: [least] }]
    return {
      operationId: id,
      summary,
      ...(text === '' ? {} : { description: text }),
      tags: [tag],
      security:
        role === null ? [] : typeof role === 'string' ? needs(role) : [...needs(role.optional), {}],
      ...(parameters.length === 0 ? {} : { parameters }),
      ...(body === undefined
        ? {}
        : { requestBody: { required: body.optional !== true, content: contentOf(body, 'input') } }),
      responses: {
        ...Object.fromEntries(problemsOf(call).map((status) => [status, problemOf(status)])),
        ...Object.fromEntries(
          Object.entries(call.answers).map(([status, answer]) => [status, answerOf(answer)]),
        ),
      },
    }
  }

  for (const call of calls) {
    const { path, method } = call
    paths[path] = { ...paths[path], [method.toLowerCase()]: operationOf(call) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'bidweir',
      version,
      description:
        'Supplier connectivity and Optimized Price Discovery. Paths of the API may be written with or without the trailing slash. Errors are problem documents (RFC 9457).',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas,
      securitySchemes: { bearer },
    },
  }
}

/** Must be called before any plugin is registered: it collects the routes that follow. */
export function serveDocument(app: FastifyInstance): void {
  const calls = new Set<Call>()
  app.addHook('onRoute', ({ config }) => {
    if (config?.call !== undefined) calls.add(config.call)
  })
  /** Built at the first request, when all routes are registered. */
  const document = new Lazy(() => documentOf(calls, programVersion()))
  const page = new Lazy(() => documentPage(document.value))
  const documentRoute: Route = {
    method: 'GET',
    path: '/api/openapi.json',
    id: 'document',
    tag: 'service',
    summary: 'This document',
    role: null,
    answers: {
      200: jsonAnswer('OpenAPI 3.1', z.looseObject({ openapi: z.string() }), { openapi: '3.1.0' }),
    },
    handler: async (_request, reply) =>
      reply
        .headers({ 'cache-control': 'no-cache', 'access-control-allow-origin': '*' })
        .type('application/json')
        .send(Buffer.from(JSON.stringify(document.value))),
  }
  const pageRoute: Route = {
    method: 'GET',
    path: '/api/docs',
    id: 'documentPage',
    tag: 'service',
    summary: 'This document as a page, without resources of other hosts',
    role: null,
    answers: {
      200: { description: 'The page', content: { schema: z.string(), type: 'text/html' } },
    },
    async handler(_request, reply) {
      return reply
        .headers({
          'cache-control': 'no-cache',
          'content-security-policy': pagePolicy,
          'referrer-policy': 'no-referrer',
          'x-content-type-options': 'nosniff',
        })
        .type('text/html; charset=utf-8')
        .send(page.value)
    },
  }
  void app.register(async (inner) => {
    for (const route of [documentRoute, pageRoute]) addRoute(inner, route)
  })
}
