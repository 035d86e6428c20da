/** `/api/openapi.json`: the document of every path that stands, and `/api/docs`, the page that shows it. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
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

/** Nothing of other hosts: no script but our files, no font, no validator. The page sets styles on its elements. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const realm = /^\/auth\/realms\/[^/]+/

/** The operation of a route, by the form of its path that the document has: `GET /api/svc/ssp/{id}/`. */
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
      'An access token. Calls that read need the role `viewer`, calls that write `api`, holds, voids and models `operator`; each role includes those before it. Calls see the suppliers of its account.',
  }
  const oidc = { type: 'openIdConnect', openIdConnectUrl: discovery }
  return {
    openapi: '3.1.0',
    info: {
      title: 'bidweir',
      version,
      description:
        'Supplier connectivity and Optimized Price Discovery. Paths of the API work with and without the trailing slash. Errors are problem documents (RFC 9457).',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: [
      { name: 'management', description: 'Suppliers, buyers, data centers, holds, voids, audit' },
      { name: 'prices', description: 'Optimized Price Discovery' },
      { name: 'reports', description: 'What came of it' },
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

/** Before any other plugin: it sees the routes that are registered after it. */
export function documented(app: FastifyInstance): void {
  const version = programVersion()
  const routes = new Set<string>()
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) routes.add(`${each} ${url}`)
  })
  // the document is ours whole: the converter of routes drops what 3.1 has over 3.0
  void app.register(swagger, {
    openapi: { openapi: '3.1.0', info: { title: 'bidweir', version } },
    transform: ({ url }) => ({ url, schema: { hide: true } }),
    transformObject: () => documentOf(routes, version),
  })
  void app.register(swaggerUi, {
    routePrefix: '/api/docs',
    staticCSP: policy,
    uiConfig: { url: '/api/openapi.json', deepLinking: true },
    indexPrefix: '',
  })
  void app.register(async (inner) => {
    let text: Buffer | null = null
    inner.get('/api/openapi.json', { exposeHeadRoute: true }, async (_request, reply) => {
      text ??= Buffer.from(JSON.stringify(inner.swagger()))
      return reply
        .headers({ 'cache-control': 'no-cache', 'access-control-allow-origin': '*' })
        .type('application/json')
        .send(text)
    })
  })
}
