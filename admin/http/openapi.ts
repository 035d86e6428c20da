/**
 * `/api/openapi.json`: the API document, with the routes that are registered, and `/api/docs`, a page that shows it.
 */
import swaggerUi, { type FastifySwaggerUiOptions } from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { stringify } from 'yaml'
import { managementPaths } from './openapi/management.ts'
import { type Json, schemas } from './openapi/parts.ts'
import { pricePaths } from './openapi/prices.ts'
import { servicePaths, tokenPaths } from './openapi/service.ts'
import { programVersion } from './openapi/version.ts'

const operations: Readonly<Record<string, Json>> = {
  ...managementPaths,
  ...pricePaths,
  ...tokenPaths,
  ...servicePaths,
}

/** The page loads nothing from other hosts: no script, font or validator. It sets inline styles on its elements. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const realm = /^\/auth\/realms\/[^/]+/

/** The operation of a route, and its name in the tables below `openapi/`: `GET /api/svc/ssp/{id}/`. */
export function operationOf(method: string, url: string): { name: string; operation: Json } | null {
  const path = url
    .replace(realm, '{realm}')
    .replace('/opd/:name', '/opd/{ssp}_yesbid')
    .replaceAll(/:(\w+)(\([^)]*\))?/g, '{$1}')
  for (const form of [path, `${path}/`, path.replace(/\/$/, '')]) {
    const name = `${method} ${form}`
    if (Object.hasOwn(operations, name)) return { name, operation: operations[name]! }
  }
  return null
}

function documentOf(routes: ReadonlySet<string>, version: string): Json {
  const paths: Record<string, Record<string, Json>> = {}
  let discovery: string | null = null
  for (const route of routes) {
    const [method, url] = route.split(' ') as [string, string]
    const found = operationOf(method, url)
    if (found === null) continue
    const base = realm.exec(url)?.[0] ?? ''
    if (base !== '') discovery = `${base}/.well-known/openid-configuration`
    const path = found.name.slice(method.length + 1).replace('{realm}', base)
    paths[path] ??= {}
    paths[path][method.toLowerCase()] = found.operation
  }
  const bearer = {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'An access token. Reading needs the role `viewer`, writing `api`; holds, voids and models need `operator`. Each role includes the ones before it. A token gives access to the suppliers of its account.',
  }
  const oidc = { type: 'openIdConnect', openIdConnectUrl: discovery }
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
    tags: [
      { name: 'management', description: 'Suppliers, buyers, data centers, holds, voids, audit' },
      { name: 'prices', description: 'Optimized Price Discovery' },
      { name: 'reports', description: 'Results of optimization, and single decisions' },
      { name: 'tokens', description: 'Access tokens of the embedded realm' },
      { name: 'service', description: 'Health, metrics, documents' },
    ],
    paths,
    components: {
      schemas,
      securitySchemes: { bearer, ...(discovery === null ? {} : { oidc }) },
    },
  }
}

/** Must be called before any plugin is registered: it collects the routes that follow. */
export function serveDocument(app: FastifyInstance): void {
  const routes = new Set<string>()
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) routes.add(`${each} ${url}`)
  })
  let made: Json | null = null
  /** Built at the first request, when all routes are registered. */
  const document = () => {
    made ??= documentOf(routes, programVersion())
    return made
  }
  void app.register(async (inner) => {
    // the page reads its document through this function of @fastify/swagger, which is not needed otherwise
    inner.decorate('swagger', (options?: { yaml?: boolean }) =>
      options?.yaml === true ? stringify(document()) : document(),
    )
    const options: FastifySwaggerUiOptions = {
      routePrefix: '/api/docs',
      staticCSP: policy,
      uiConfig: { url: '/api/openapi.json', deepLinking: true },
      indexPrefix: '',
    }
    // called directly: `register` would demand @fastify/swagger
    await swaggerUi(inner, options, () => undefined)
    inner.get('/api/openapi.json', { exposeHeadRoute: true }, async (_request, reply) =>
      reply
        .headers({ 'cache-control': 'no-cache', 'access-control-allow-origin': '*' })
        .type('application/json')
        .send(Buffer.from(JSON.stringify(document()))),
    )
  })
}
