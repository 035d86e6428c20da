/** The API document: valid, complete, readable by all, and shown by a page that fetches nothing from outside. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { existsSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { FastifyInstance, RouteOptions } from 'fastify'
import { chromium } from 'playwright-core'
import t from 'tap'
import { loadConfig } from '../../../service/config/load.ts'
import { startService } from '../../../service/service.ts'
import { newFolder, token } from '../../support/process.ts'
import { serveBidweir } from '../../support/served-node.ts'

const quiet = { info() {}, warn() {}, error() {} }
const folder = newFolder()
const yaml = (path: string) => `
proxy: {listen: 127.0.0.1:0}
admin: {listen: 127.0.0.1:0}
store: {database: 'sqlite:${path}/b.db'}
suppliers: [{id: acme, endpoints: ['http://127.0.0.1:9/'], account: a, opd: {enabled: true}}]
`
const bidweir = await serveBidweir(yaml(folder), folder)
t.teardown(() => bidweir.stop())
const base = `http://127.0.0.1:${bidweir.adminPort}`
const answer = await fetch(`${base}/api/openapi.json`)
const text = await answer.text()
// biome-ignore lint/suspicious/noExplicitAny: an OpenAPI document
const document = JSON.parse(text) as any

t.test('the document is valid OpenAPI 3.1, and wants no token', async (t) => {
  t.equal(answer.status, 200)
  t.match(answer.headers.get('content-type'), 'application/json')
  t.match(document.openapi, /^3\.1\./)
  const result = await new Validator().validate(JSON.parse(text))
  t.equal(result.valid, true, JSON.stringify(result.errors ?? null).slice(0, 2000))
  const ids = operations().map(({ operation }) => operation.operationId)
  t.equal(new Set(ids).size, ids.length, 'each operation has an id of its own')
})

t.test('every reference leads somewhere, and every part is used', async (t) => {
  const used = new Set(
    [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map((m) => m[1]),
  )
  t.same([...used].sort(), Object.keys(document.components.schemas).sort())
  const schemes = Object.keys(document.components.securitySchemes)
  t.same(schemes, ['bearer'])
  for (const { operation } of operations())
    for (const scheme of operation.security ?? [])
      for (const name of Object.keys(scheme)) t.ok(schemes.includes(name))
})

t.test('each operation answers with a status that it lists', async (t) => {
  for (const { method, path, operation } of operations()) {
    const url = path.replace('{id}', 'acme').replace('{ssp}', 'acme').replace('{svc_opd}', 'abc')
    const response = await fetch(base + url, { method })
    await response.arrayBuffer()
    t.ok(operation.responses[response.status], `${method} ${url} says ${response.status}`)
    const guarded =
      operation.security.length > 0 &&
      operation.security.every((scheme: object) => 'bearer' in scheme)
    if (guarded) t.equal(response.status, 401, `${method} ${url} wants a token`)
  }
})

t.test('paths of the router that the document does not have answer 404 or 405', async (t) => {
  const authorization = `Bearer ${await token(bidweir)}`
  for (const path of Object.keys(document.paths)) {
    const url = path.replace(/\{(id|ssp)\}/, 'acme').replace('{svc_opd}', 'abc')
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      if (document.paths[path][method.toLowerCase()] !== undefined) continue
      const response = await fetch(base + url, { method, headers: { authorization } })
      await response.arrayBuffer()
      t.equal(response.status, 405, `${method} ${url}`)
      t.ok(response.headers.get('allow'), `${method} ${url} says what is allowed`)
    }
  }
})

t.test('requests are checked as the document says', async (t) => {
  const { requestBody } = document.paths['/api/svc/ssp/{id}/'].put
  const { example } = requestBody.content['application/json']
  const authorization = `Bearer ${await token(bidweir)}`
  const send = (method: string, body: unknown) =>
    fetch(`${base}/api/svc/ssp/acme/`, {
      method,
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const post = document.paths['/api/svc/ssp/{id}/'].post.requestBody.content['application/json']
  t.equal((await send('POST', post.example)).status, 201, 'the example of POST is taken')
  t.equal((await send('PUT', example)).status, 200, 'the example of PUT is taken')
  const { SupplierUpdate } = document.components.schemas
  t.equal(SupplierUpdate.additionalProperties, false)
  t.same(
    Object.keys(SupplierUpdate.properties).filter((name) => /svc|service/.test(name)),
    [],
  )
  t.equal((await send('PUT', { more: 1 })).status, 400)
})

t.test('the document says what ids and names may be', async (t) => {
  const { parameters } = document.paths['/opd/imp'].get
  const bidId = parameters.find(({ name }: { name: string }) => name === 'bid_id')
  t.match(bidId, { required: true, schema: { minLength: 1 } })
  const { name } = document.components.schemas.SupplierCreate.properties.dsp_seats.items.properties
  const pattern = new RegExp(name.pattern, 'u')
  t.same(
    [pattern.test('Seat é'), pattern.test('a\u0000b'), pattern.test('a\nb')],
    [true, false, false],
  )
})

t.test('each registered route is in the document', async (t) => {
  const routes: RouteOptions[] = []
  const collect = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance }
    fastify.addHook('onRoute', (route) => void routes.push(route))
  }
  subscribe('fastify.initialization', collect)
  const other = newFolder()
  const file = join(other, 'b.yaml')
  writeFileSync(file, yaml(other))
  const loaded = loadConfig(file)
  const { config } = loaded
  if (config === null) throw new Error('the configuration is not valid')
  const service = await startService({
    loaded: { ...loaded, config },
    load: null,
    log: { level: 'info', ...quiet },
    watch: null,
  })
  unsubscribe('fastify.initialization', collect)
  t.teardown(() => service.stop(0))
  t.ok(routes.length > 40)
  const page = /^\/dashboard(\/|$)/
  for (const { url, method, config } of routes) {
    if (page.test(url)) continue
    const { call } = config ?? {}
    if (call === undefined) t.fail(`${method} ${url} has no definition`)
    else t.ok(document.paths[call.path]?.[call.method.toLowerCase()], call.path)
  }
})

t.test('a report has its own path and columns', async (t) => {
  const authorization = `Bearer ${await token(bidweir)}`
  for (const [what, column] of [
    ['margin', 'uplift'],
    ['wins', 'kept'],
    ['discrepancy', 'difference'],
  ] as const) {
    const path = `/api/svc/reports/${what}`
    const { schema } = document.paths[path].get.responses[200].content['application/json']
    const [name] = schema.items.$ref.match(/\w+$/)
    const { properties } = document.components.schemas[name]
    t.ok(properties[column], path)
    for (const url of [path, `${path}/`]) {
      const csv = await fetch(`${base}${url}?format=csv`, { headers: { authorization } })
      const columns = (await csv.text()).trim().split(',')
      const rest = Object.keys(properties).filter((name) => name !== 'key' && name !== 'key2')
      t.same(['supplier', ...rest], columns, url)
    }
  }
})

const browserPath = '/usr/bin/chromium'
t.test(
  'the page shows the document, fetches nothing from outside, breaks no rule of its policy, and is accessible',
  { skip: existsSync(browserPath) ? false : 'chromium not found' },
  async (t) => {
    const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] })
    t.teardown(() => browser.close())
    const page = await browser.newPage()
    const schemas = Object.keys(document.components.schemas).length
    const outside: string[] = []
    const complaints: string[] = []
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url())
      if (origin !== base && protocol !== 'data:') outside.push(request.url())
    })
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(error.message))
    const first = await page.goto(`${base}/api/docs`)
    t.match(first?.headers()['content-security-policy'], /default-src 'none'; style-src 'sha256-/)
    t.equal(await page.locator('main > section > details').count(), operations().length + schemas)
    const update = page.locator('#updateSupplier')
    await update.locator('summary').first().click()
    await update.getByText('curl -X PUT "$BASE/api/svc/ssp/acme/"').waitFor()
    // axe takes minutes for the whole page: one call with all its parts, and one schema
    const parts = '#updateSupplier, #updateSupplier details, #schema-Supplier'
    await page.evaluate(
      `for (const each of document.querySelectorAll('${parts}')) each.open = true`,
    )
    const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      await page.evaluate(axe)
      const { violations } = (await page.evaluate('axe.run()')) as { violations: { id: string }[] }
      t.same(
        violations.map(({ id }) => id),
        [],
        colorScheme,
      )
    }
    await page.setViewportSize({ width: 390, height: 844 })
    const over = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
    t.ok((over as number) <= 0, 'nothing scrolls sideways on a phone')
    t.same(outside, [])
    t.same(complaints, [])
  },
)

function operations() {
  return Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      operation,
    })),
  )
}
