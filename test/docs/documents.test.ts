/** Everything that the documents name exists: link targets, files, commands, metrics, configuration keys; generated documents are up to date. */
import { existsSync, globSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { parse } from 'yaml'
import { quotingDocuments } from '../../docs/generate/quotes.ts'
import { reference } from '../../docs/generate.ts'
import { jsonSchema } from '../../service/config/schema.ts'
import { commandHere } from '../support/command.ts'
import { newFolder } from '../support/process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const files = (pattern: string | string[]) =>
  globSync(pattern, {
    cwd: root,
    exclude: (name) => ['node_modules', '.tap', 'dist'].includes(name.split('/')[0]!),
  })
const pages = files('**/*.md').map((name) => ({
  name,
  text: readFileSync(join(root, name), 'utf8'),
}))

const withoutCode = (text: string) =>
  text.replace(/^```[\s\S]*?^```$/gm, '').replace(/`[^`\n]*`/g, '')

/** As GitHub spells the anchor of a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

const anchorsOf = (file: string) =>
  new Set(
    [...readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm)].map((match) => anchorOf(match[1]!)),
  )

function linkFault(page: string, link: string): string | null {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? join(root, page) : resolve(root, dirname(page), path)
  if (relative(root, target).startsWith('..')) return 'leads out of the repository'
  if (!existsSync(target)) return 'leads to no file'
  if (anchor === undefined || statSync(target).isDirectory()) return null
  return anchorsOf(target).has(anchor) ? null : 'leads to no heading'
}

t.test('every relative link leads to a file and a heading', async (t) => {
  const faults = pages.flatMap(({ name, text }) =>
    [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)]
      .map((match) => match[1]!)
      .filter((link) => !/^[a-z]+:/.test(link))
      .flatMap((link) => {
        const fault = linkFault(name, link)
        return fault === null ? [] : [`${name}: ${link} ${fault}`]
      }),
  )
  t.same(faults, [])
})

t.test('every file, folder and npm script that a document names exists', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const path =
    /(?<![\w./-])(?:opd|proxy|admin|service|bench|test|docs|charts|examples|\.ci)\/[\w./*{}-]+/g
  const faults = pages
    // changes and figures name what is gone as well
    .filter(({ name }) => name !== 'CHANGELOG.md' && !/RESULTS|PROFILE/.test(name))
    .flatMap(({ name, text }) => {
      const quoted = [...text.matchAll(/`([^`\n]+)`/g)].flatMap(
        ([, code]) => code!.match(path) ?? [],
      )
      const absent = quoted.filter((text) => !/NAME|\.\.\./.test(text) && files(text).length === 0)
      const named = [...text.matchAll(/npm run (?:-s )?([\w:-]+)/g)].map(([, script]) => script!)
      return [...absent, ...named.filter((script) => !(script in scripts))].map(
        (script) => `${name}: ${script}`,
      )
    })
  t.same(faults, [])
})

t.test('every metric that a document or an example names exists', async (t) => {
  const sources = files('{proxy,opd,admin,service}/**/*.ts').map((name) =>
    readFileSync(join(root, name), 'utf8'),
  )
  const known = new Set(sources.flatMap((text) => text.match(/\bbidweir_[a-z_]+/g) ?? []))
  const named = [
    ...pages,
    ...files([
      'examples/**/*.{yaml,yml,json}',
      'charts/**/*.{yaml,json}',
      'test/chart/alerts.yaml',
    ]).map((name) => ({
      name,
      text: readFileSync(join(root, name), 'utf8'),
    })),
  ]
  const faults = named
    // the changes name what is gone as well
    .filter(({ name }) => name !== 'CHANGELOG.md')
    .flatMap(({ name, text }) =>
      (text.match(/\bbidweir_[a-z_]+[a-z]\b(?!\*)/g) ?? [])
        .filter(
          (metric) => !known.has(metric) && !known.has(metric.replace(/_(bucket|sum|count)$/, '')),
        )
        .filter((metric) => ![...known].some((name) => name.startsWith(`${metric}_`)))
        .map((metric) => `${name}: ${metric}`),
    )
  t.same(faults, [])
})

type Schema = {
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
}

/** Whether a path of keys is in a schema; those of a list are those of its items. */
function hasKey(schema: Schema | undefined, path: readonly string[]): boolean {
  if (schema === undefined) return false
  const [key, ...rest] = path
  if (key === undefined) return true
  return (
    hasKey(schema.properties?.[key], rest) ||
    (schema.anyOf ?? []).some((part) => hasKey(part, path)) ||
    (schema.items !== undefined && hasKey(schema.items, path))
  )
}

t.test('every key of the configuration that a document names exists', async (t) => {
  const schema = jsonSchema() as Schema
  const supplier = schema.properties!['suppliers']!.items!
  const chart = parse(readFileSync(join(root, 'charts/bidweir/values.yaml'), 'utf8')) as object
  const inChart = (path: readonly string[]) => {
    let value: unknown = chart
    for (const key of path) value = (value as Record<string, unknown> | null | undefined)?.[key]
    return value !== undefined
  }
  const roots = [...Object.keys(schema.properties!), ...Object.keys(supplier.properties!)].join('|')
  const dotted = new RegExp(`\`((?:${roots})(?:\\.[A-Za-z]+)+)[\`:]`, 'g')
  const faults = pages
    .filter(({ name }) => name !== 'CHANGELOG.md')
    .flatMap(({ name, text }) =>
      [...text.matchAll(dotted)]
        .map((match) => match[1]!)
        .filter((key) => !/\.(ts|md|yaml|json|key)$/.test(key))
        .filter((key) => {
          const path = key.split('.')
          return !hasKey(schema, path) && !hasKey(supplier, path) && !inChart(path)
        })
        .map((key) => `${name}: ${key}`),
    )
  t.same(faults, [])
})

t.test('the configurations that are shown are valid', async (t) => {
  const [minimal] = /(?<=^```yaml\n)[\s\S]*?(?=^```$)/m.exec(
    readFileSync(join(root, 'README.md'), 'utf8'),
  )!
  const shown = join(newFolder(), 'bidweir.yaml')
  writeFileSync(shown, minimal)
  Object.assign(process.env, {
    DATABASE_URL: 'postgres://bidweir@127.0.0.1/bidweir',
    REDIS_URL: 'redis://127.0.0.1',
    OPD_KEY: Buffer.alloc(32).toString('base64url'),
  })
  for (const file of [shown, ...files('examples/*.yaml').map((name) => join(root, name))]) {
    const { code, said } = await commandHere('check', '--config', file)
    t.equal(code, 0, `${file}: ${said}`)
  }
})

t.test('docs/reference is what the code says (npm run docs)', async (t) => {
  for (const [name, text] of Object.entries(await reference())) {
    const file = new URL(`../../docs/reference/${name}`, import.meta.url)
    t.equal(readFileSync(file, 'utf8'), text, name)
  }
})

t.test('documents quote the figures of RESULTS.md (npm run docs)', async (t) => {
  const documents = Object.entries(quotingDocuments())
  t.ok(documents.length > 0)
  for (const [name, text] of documents)
    t.equal(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'), text, name)
})

t.test(
  'the shipped JSON Schema is the one of the code (npm run bidweir -- schema > bidweir.schema.json)',
  (t) => {
    const shipped = readFileSync(new URL('../../bidweir.schema.json', import.meta.url), 'utf8')
    t.same(JSON.parse(shipped), JSON.parse(JSON.stringify(jsonSchema())))
    t.end()
  },
)
