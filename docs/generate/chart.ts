/** What the Helm chart takes from the code: the schema of `config`, the keys that need a restart, its table of values. */
import { readFileSync } from 'node:fs'
import { isMap, isScalar, type Pair, parseDocument, type Scalar, type YAMLMap } from 'yaml'
import { restartKeys } from '../../service/config/restart.ts'
import { jsonSchema } from '../../service/config/schema.ts'
import { dashboards } from './dashboards.ts'
import { code, table } from './markdown.ts'

const chart = new URL('../../charts/bidweir/', import.meta.url)
const read = (name: string) => readFileSync(new URL(name, chart), 'utf8')

type Schema = { [key: string]: unknown }
type Properties = Record<string, Schema>

/** Set by the chart: templates/requirements.yaml refuses them with the reason. */
const managed = [
  'stateDir',
  'store',
  'drain',
  'notices',
  'proxy.listen',
  'admin.listen',
  'agent.listen',
  'admin.auth.embedded.adminPassword',
  'opd.keys',
]

const external = { $ref: '#/$defs/external' }

/** Every scalar may also come from the environment or a file. */
function withExternal(schema: Schema, path: string): Schema {
  if (managed.includes(path)) return {}
  const { default: _, $schema: __, title: ___, ...rest } = schema
  const result: Schema = { ...rest }
  const keyAt = (key: string) => (path === '' ? key : `${path}.${key}`)
  if (rest['properties'] !== undefined)
    result['properties'] = Object.fromEntries(
      Object.entries(rest['properties'] as Properties).map(([key, inner]) => [
        key,
        withExternal(inner, keyAt(key)),
      ]),
    )
  for (const name of ['items', 'additionalProperties'])
    if (typeof rest[name] === 'object')
      result[name] = withExternal(rest[name] as Schema, keyAt('*'))
  if (rest['anyOf'] !== undefined) {
    const branches = (rest['anyOf'] as Schema[]).map((inner) => withExternal(inner, path))
    const choices = branches.flatMap((branch) => (branch['anyOf'] as Schema[]) ?? [branch])
    result['anyOf'] = [
      ...new Map(choices.map((choice) => [JSON.stringify(choice), choice])).values(),
    ]
    return result
  }
  const type = rest['type']
  if (type === undefined || type === 'object' || type === 'array' || type === 'null') return result
  const { description, ...scalar } = result
  return { ...(description === undefined ? {} : { description }), anyOf: [scalar, external] }
}

function valuesSchema(): string {
  const schema = JSON.parse(read('values.schema.json')) as { $defs: Properties }
  const config = withExternal(jsonSchema() as Schema, '') as { properties: Properties }
  const suppliers = config.properties['suppliers'] as { items: Schema }
  const { required: _, ...supplier } = suppliers.items
  const properties = supplier['properties'] as Properties
  // the chart compares ids
  const id = (properties['id'] as { anyOf: [Schema] }).anyOf[0]
  schema.$defs['supplier'] = { ...supplier, properties: { ...properties, id } }
  suppliers.items = { $ref: '#/$defs/supplier', required: ['id'] }
  schema.$defs['config'] = config
  return `${JSON.stringify(schema, null, 2)}\n`
}

interface Row {
  key: string
  value: string
  about: string
}

/** `# -- text` above a key, up to the key. */
const aboutOf = (comment: string | null | undefined) => {
  const position = comment?.lastIndexOf(' -- ') ?? -1
  return position < 0 ? '' : comment!.slice(position + 4).replaceAll(/\n ?/g, ' ')
}

/** The rows of a map: a key that is described is one row, and so is a key without keys below. */
function rowsOf(map: YAMLMap, path: string): Row[] {
  return (map.items as Pair<Scalar<string>, unknown>[]).flatMap((pair, index) => {
    const { value: name } = pair.key
    const key = path === '' ? name : `${path}.${name}`
    const about = aboutOf(
      index === 0 ? (pair.key.commentBefore ?? map.commentBefore) : pair.key.commentBefore,
    )
    const value = isMap(pair.value) || !isScalar(pair.value) ? pair.value : pair.value.value
    if (
      isMap(value) &&
      value.items.length > 0 &&
      (about === '' || !value.flow) &&
      !leaves.has(key)
    ) {
      const line = about === '' ? [] : [{ key, value: '', about }]
      return [...line, ...rowsOf(value, key)]
    }
    const shown = JSON.stringify((pair.value as { toJSON(): unknown }).toJSON())
    return [{ key, value: shown, about }]
  })
}
/** Maps whose content is Kubernetes'. */
const leaves = new Set([
  'autoscaling.behavior',
  'podSecurityContext',
  'securityContext',
  'resources',
])

export const valueRows = (): Row[] =>
  rowsOf(parseDocument(read('values.yaml')).contents as YAMLMap, '')

const [begin, end] = ['<!-- values -->\n\n', '\n\n<!-- end of values -->']

function readme(): string {
  const text = read('README.md')
  const [from, to] = [text.indexOf(begin) + begin.length, text.indexOf(end)]
  const rows = valueRows().map(({ key, value, about }) => [code(key), code(value), about])
  return text.slice(0, from) + table(['value', 'default', 'meaning'], rows) + text.slice(to)
}

/** The text of each generated file of charts/bidweir. */
export const chartFiles = (): Record<string, string> => ({
  'files/restart-keys.json': `${JSON.stringify(restartKeys, null, 2)}\n`,
  'values.schema.json': valuesSchema(),
  'README.md': readme(),
  ...Object.fromEntries(
    Object.entries(dashboards()).map(([name, text]) => [`dashboards/${name}`, text]),
  ),
})
