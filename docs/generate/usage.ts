/**
 * How bidweir is used: the command line, from its program, and the keys of the configuration, from its JSON Schema.
 */
import type { Argument, Command, Option } from 'commander'
import { createProgram, exitCodes } from '../../service/cli/index.ts'
import { restartKeys } from '../../service/config/restart.ts'
import { jsonSchema } from '../../service/config/schema.ts'
import { code, page, table } from './markdown.ts'

const argumentText = (argument: Argument) => {
  const text = argument.name() + (argument.variadic ? '...' : '')
  return argument.required ? `<${text}>` : `[${text}]`
}

function argumentRow(argument: Argument): string[] {
  return [code(argumentText(argument)), argument.required ? 'required' : '', argument.description]
}

function optionRow({ flags, mandatory, defaultValue, description, argChoices }: Option): string[] {
  const byDefault = mandatory ? 'required' : code(defaultValue ? String(defaultValue) : '')
  const choices = argChoices === undefined ? '' : `: ${argChoices.join(' or ')}`
  return [code(flags), byDefault, description + choices]
}

/** The section of a command with its own and its inherited options; a group of commands has no section. */
function sections(command: Command, path: string, inherited: readonly Option[]): string[] {
  const options = [...inherited, ...command.options.filter(({ long }) => long !== '--version')]
  if (command.commands.length > 0)
    return command.commands.flatMap((subcommand) =>
      sections(subcommand, `${path} ${subcommand.name()}`, options),
    )
  const args = command.registeredArguments
  const usage = [path, ...args.map(argumentText)].join(' ')
  const rows = [...args.map(argumentRow), ...options.map(optionRow)]
  const details =
    rows.length === 0 ? [] : [table(['argument or option', 'default', 'meaning'], rows)]
  return [`## ${code(usage)}`, `${command.description()}.`, ...details]
}

export function commands(): string {
  const program = createProgram(process, () => {})
  return page(
    'Command line',
    '`bidweir --help` and `bidweir COMMAND --help` print the same.',
    ...sections(program, 'bidweir', []),
    '## Exit codes',
    exitCodes.trim().replace(/^Exit codes: /, ''),
  )
}

interface SchemaNode {
  type?: string | string[]
  description?: string
  default?: unknown
  properties?: Record<string, SchemaNode>
  required?: string[]
  items?: SchemaNode
  anyOf?: SchemaNode[]
  enum?: unknown[]
  const?: unknown
  pattern?: string
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  additionalProperties?: SchemaNode | false
}

/** The text forms of opd/shared/units.ts. */
const isDuration = ({ pattern }: SchemaNode) => pattern?.endsWith('(ms|s|m|h|d)$') === true
const isSize = ({ pattern }: SchemaNode) => pattern?.includes('KiB|MiB') === true

function typeOf(node: SchemaNode): string {
  if (node.anyOf?.some(isSize))
    return JSON.stringify(node).includes('(auto|') ? 'auto | size' : 'size'
  if (node.anyOf !== undefined) return [...new Set(node.anyOf.map(typeOf))].join(' | ')
  if (node.enum !== undefined) return node.enum.join(' | ')
  if (node.const !== undefined) return String(node.const)
  if (isDuration(node)) return 'duration'
  if (node.type === 'array') return `list of ${typeOf(node.items ?? {})}`
  if (node.type === 'object' && node.properties === undefined && node.additionalProperties)
    return `map to ${typeOf(node.additionalProperties)}`
  return [node.type ?? 'any'].flat().join(' | ')
}

function unitOf(node: SchemaNode): string {
  if (isDuration(node)) return 'ms, s, m, h or d'
  if (node.anyOf?.some(isSize)) return 'bytes, KiB, MiB or GiB'
  if (node.type !== 'number') return ''
  const most = node.maximum ?? node.exclusiveMaximum ?? Number.POSITIVE_INFINITY
  return most <= 1 ? 'share, 0 to 1' : ''
}

const underKey = (key: string, parent: string) =>
  key === parent || key.startsWith(`${parent}.`) || key.startsWith(`${parent}[`)

function reloadOf(key: string): string {
  const row = restartKeys.find((restartKey) => underKey(key, restartKey.key))
  if (row === undefined) return 'reload'
  if (key === row.firstStart) return 'first start'
  if (row.compare === 'value') return 'restart'
  return key === row.key ? 'reload; restart to add or remove it' : 'reload'
}

/** Rows of the keys below a node, in the order of the schema. `isOnly` false: another form of the node may be given instead. */
function rowsOf(node: SchemaNode, parent: string, isOnly = true): string[][] {
  const nested = Object.entries(node.properties ?? {}).flatMap(([name, inner]) => {
    const key = parent === '' ? name : `${parent}.${name}`
    const isGroup = inner.properties !== undefined
    const byDefault = isGroup || inner.default === undefined ? '' : JSON.stringify(inner.default)
    const isRequired = isOnly && node.required?.includes(name) && inner.default === undefined
    const preset = isRequired ? 'required' : code(byDefault)
    const row = [code(key), typeOf(inner), preset, unitOf(inner), reloadOf(key)]
    return [[...row, inner.description ?? ''], ...rowsOf(inner, key)]
  })
  const ofItems = node.items === undefined ? [] : rowsOf(node.items, `${parent}[]`)
  const forms = node.anyOf ?? []
  const isOnlyForm = forms.filter(({ properties }) => properties !== undefined).length === 1
  return [...nested, ...ofItems, ...forms.flatMap((form) => rowsOf(form, parent, isOnlyForm))]
}

export const configuration = () =>
  page(
    'Configuration',
    'The keys of `bidweir.yaml`; [the rules](../configuration.md) say how they work together. A key marked `required` is so where its block is given: without `opd.keys`, no `opd.keys[].id` is needed. `bidweir check --config FILE` reports every fault with its line. Unknown keys are faults.',
    'Any value may be `${ENV_NAME}` or `{file: path}`. Relative paths are relative to the configuration file. A duration is text such as `120ms`, `5s`, `10m`, `48h` or `2d`; a size is a number of bytes or text such as `64KiB`.',
    'A change of the file, or SIGHUP, reloads it. A changed key takes effect at the reload, or, if it is marked `restart`, at the next start; the log then says `restart needed`.',
    table(
      ['key', 'type', 'default', 'unit', 'takes effect at', 'description'],
      rowsOf(jsonSchema() as SchemaNode, ''),
    ),
  )
