/** A client with types generated from the API document compiles for each call, and for no other use of it. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import openapiTS, { type OpenAPI3 } from 'openapi-typescript'
import t from 'tap'
import { newFolder } from '../../support/process.ts'
import { serveBidweir } from '../../support/served-node.ts'

interface Content {
  [type: string]: { example?: unknown }
}
interface Operation {
  parameters?: { name: string; in: string; required?: boolean; example?: unknown }[]
  requestBody?: { content: Content }
  responses: Record<string, { content?: Content }>
}

const folder = newFolder()
const bidweir = await serveBidweir(
  `
proxy: {listen: 127.0.0.1:0}
admin: {listen: 127.0.0.1:0}
suppliers: [{id: acme, endpoints: ['http://127.0.0.1:9/']}]
`,
  folder,
)
t.teardown(() => bidweir.stop())
const answer = await fetch(`http://127.0.0.1:${bidweir.adminPort}/api/openapi.json`)
const document = (await answer.json()) as { paths: Record<string, Record<string, Operation>> }

const client = join(folder, 'client')
mkdirSync(client)
writeFileSync(join(client, 'package.json'), '{"type": "module"}')
writeFileSync(
  join(client, 'api.ts'),
  // current generators demand each field that has a default, as this version does with the option
  await openapiTS(structuredClone(document) as unknown as OpenAPI3, { defaultNonNullable: true }),
)
writeFileSync(
  join(client, 'call.ts'),
  `import type { paths } from './api.ts'

type Operation<P extends keyof paths, M extends keyof paths[P]> = paths[P][M]
type Of<T, K extends PropertyKey> = T extends { [key in K]?: unknown } ? (K extends keyof T ? T[K] : undefined) : undefined
type OneOf<T> = T[keyof T]
type Input<O> = {
  path: Of<Of<O, 'parameters'>, 'path'>
  query: Of<Of<O, 'parameters'>, 'query'>
  body: O extends { requestBody?: { content: infer C } } ? OneOf<C> : undefined
}
type Result<O> = OneOf<{
  [S in keyof Of<O, 'responses'>]: {
    status: S
    body: OneOf<Of<Of<O, 'responses'>[S], 'content'>>
  }
}>
export declare function call<P extends keyof paths, M extends keyof paths[P]>(
  path: P,
  method: M,
  input: Input<Operation<P, M>>,
): Promise<Result<Operation<P, M>>>
`,
)

const compiler = join(
  dirname(createRequire(import.meta.url).resolve('typescript/package.json')),
  'bin/tsc',
)
const compilerOptions = {
  strict: true,
  noEmit: true,
  target: 'esnext',
  module: 'nodenext',
  allowImportingTsExtensions: true,
  types: [],
}
writeFileSync(join(client, 'tsconfig.json'), JSON.stringify({ compilerOptions }))

const exampleIn = (content: Content) => Object.values(content)[0]!.example

/** A program that calls everything with the examples of the document, and takes its examples for responses. */
function program(): { source: string; calls: number } {
  const lines = ["import { call } from './call.ts'", "import type { paths } from './api.ts'"]
  let calls = 0
  for (const [path, operations] of Object.entries(document.paths))
    for (const [method, { parameters = [], requestBody, responses }] of Object.entries(
      operations,
    )) {
      const inPlace = (place: string) => parameters.filter((parameter) => parameter.in === place)
      const values = (place: string) =>
        Object.fromEntries(
          inPlace(place)
            .filter(({ required }) => required)
            .map(({ name, example = '1' }) => [name, example]),
        )
      const body = requestBody && exampleIn(requestBody.content)
      const input = [
        `path: ${inPlace('path').length === 0 ? 'undefined' : JSON.stringify(values('path'))}`,
        `query: ${inPlace('query').length === 0 ? 'undefined' : JSON.stringify(values('query'))}`,
        `body: ${body === undefined ? 'undefined' : JSON.stringify(body)}`,
      ]
      lines.push(`await call('${path}', '${method}', { ${input.join(', ')} })`)
      for (const [status, { content }] of Object.entries(responses)) {
        const example = content && exampleIn(content)
        if (example === undefined) continue
        const type = Object.keys(content!)[0]
        lines.push(
          `void (${JSON.stringify(example)} satisfies paths['${path}']['${method}']['responses'][${status}]['content']['${type}'])`,
        )
      }
      calls++
    }
  return { source: lines.join('\n'), calls }
}

const { source, calls } = program()
const common = `const seats = { dsp_seats: [{ name: 'seat-1', is_active: false }] }
const changed = await call('/api/svc/ssp/{id}/', 'put', { path: { id: 'acme' }, query: undefined, body: seats })
if (changed.status === 200) changed.body.datacenters[0]?.client_qps?.toFixed()
if (changed.status === 422) changed.body.errors?.map(({ pointer }) => pointer.slice(1))
const center = { datacenters: [{ location: 'us-east', is_active: false }] }
await call('/api/svc/ssp/{id}/', 'put', { path: { id: 'acme' }, query: undefined, body: center })
const added = { dsp_seats: [{ name: 'seat-2' }] }
await call('/api/svc/ssp/{id}/', 'post', { path: { id: 'acme' }, query: undefined, body: added })
const report = await call('/api/svc/reports/margin', 'get', { path: undefined, query: { by: 'publisher' }, body: undefined })
if (report.status === 200 && typeof report.body !== 'string') report.body.map((row) => row.revenue.length + (row.uplift ?? 0))
`
/** Rows and figures have the types of their fields, without a cast. */
const typed = `import type { components, paths } from './api.ts'
type Json<P extends keyof paths> = paths[P] extends { get: { responses: { 200: { content: { 'application/json': infer T } } } } } ? T : never
declare const margin: Json<'/api/svc/reports/margin'>
declare const wins: Json<'/api/svc/reports/wins'>
declare const discrepancy: Json<'/api/svc/reports/discrepancy'>
export const rows: [string, number | null, string] = [margin[0]!.margin, wins[0]!.kept_low, discrepancy[0]!.difference]
export const row: components['schemas']['MarginRow'] = margin[0]!
`
const wrong = [
  "await call('/api/svc/opd/{id}/', 'put', { path: { id: '*' }, query: undefined, body: { held: true } })",
  "await call('/api/svc/reports/margin', 'get', { path: undefined, query: { format: 'xml' }, body: undefined })",
  "await call('/api/svc/reports/{what}', 'get', { path: { what: 'margin' }, query: {}, body: undefined })",
  "const wins = await call('/api/svc/reports/wins', 'get', { path: undefined, query: {}, body: undefined })\nif (wins.status === 200 && typeof wins.body !== 'string') wins.body[0]!.revenue",
]
writeFileSync(join(client, 'every-call.ts'), source)
for (const [name, text] of Object.entries({ common, typed, ...wrong }))
  writeFileSync(join(client, `${name}.ts`), `import { call } from './call.ts'\n${text}\n`)
const compiled = spawnSync(process.execPath, [compiler], { cwd: client, encoding: 'utf8' })
const faults = (compiled.stdout + compiled.stderr).split('\n').filter((line) => /^\S/.test(line))

t.test('each call compiles with its examples, and a client for what people do most', async (t) => {
  t.ok(calls >= 30, `${calls} calls`)
  t.same(
    faults.filter((line) => !/^\d/.test(line)),
    [],
  )
})

t.test('a wrong use does not compile', async (t) => {
  for (const [n, text] of wrong.entries())
    t.ok(
      faults.some((line) => line.startsWith(`${n}.ts(`) && line.includes('error TS')),
      text,
    )
})
