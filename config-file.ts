/** From a YAML file to a checked configuration, with every fault at once and where it stands. */
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml'
import type * as z from 'zod'
import { type Config, configSchema, crossFaults, jsonSchema } from './config.ts'

export interface ConfigFault {
  /** `suppliers[0].opd.minFactor`; empty for the file as a whole. */
  path: string
  /** 1-based; null where the value does not stand in the file. */
  line: number | null
  found: string
  allowed: string
}

export interface LoadedConfig {
  /** null when a fault other than an `opd` block's stands in the file. */
  config: Config | null
  faults: ConfigFault[]
  /** Suppliers whose `opd` block has faults: OPD is off for them (CONTRACT 2). */
  invalidOpd: Set<string>
  /** Every file that was read, the configuration first: what a watcher has to watch. */
  files: string[]
}

type Path = readonly PropertyKey[]

const show = (path: Path) =>
  path.reduce<string>(
    (text, part) =>
      typeof part === 'number'
        ? `${text}[${part}]`
        : text === ''
          ? String(part)
          : `${text}.${String(part)}`,
    '',
  )

interface Expansion {
  files: string[]
  faults: { path: Path; found: string; allowed: string }[]
  /** Where a value came from outside of the file, and from where: it is text and may have to become a number. */
  outside: Map<string, string>
  tooDeep: boolean
}

const variable = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g

function expandText(text: string, path: Path, into: Expansion): string {
  if (!text.includes('${')) return text
  return text.replace(variable, (_whole, name: string) => {
    const value = process.env[name]
    into.outside.set(show(path), `\${${name}}`)
    if (value === undefined)
      into.faults.push({
        path,
        found: `\${${name}}, which is not set`,
        allowed: 'a variable that is set',
      })
    return value ?? ''
  })
}

function readReference(reference: string, path: Path, base: string, into: Expansion): unknown {
  const file = resolve(base, expandText(reference, path, into))
  into.files.push(file)
  into.outside.set(show(path), `{file: ${reference}}`)
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '')
  } catch (error) {
    const found = `{file: ${reference}}, which cannot be read (${(error as NodeJS.ErrnoException).code})`
    into.faults.push({ path, found, allowed: 'a file that can be read' })
    return undefined
  }
}

/** Nothing in the schema is deeper; an alias that holds itself is. */
const deepest = 20

function expand(value: unknown, path: Path, base: string, into: Expansion): unknown {
  if (path.length > deepest) {
    if (!into.tooDeep)
      into.faults.push({
        path: path.slice(0, 2),
        found: 'a value without end',
        allowed: `${deepest} levels`,
      })
    into.tooDeep = true
  }
  if (into.tooDeep) return undefined
  if (typeof value === 'string') return expandText(value, path, into)
  if (Array.isArray(value)) return value.map((item, at) => expand(item, [...path, at], base, into))
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value)
  const [first] = entries
  if (entries.length === 1 && first![0] === 'file' && typeof first![1] === 'string')
    return readReference(first![1], path, base, into)
  return Object.fromEntries(
    entries.map(([key, item]) => [key, expand(item, [...path, key], base, into)]),
  )
}

function valueAt(root: unknown, path: Path): unknown {
  let value = root
  for (const part of path)
    value = (value as Record<PropertyKey, unknown> | null | undefined)?.[part]
  return value
}

const coercions: Readonly<Record<string, (text: string) => unknown>> = {
  number: (text) => (text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text),
  boolean: (text) => (text === 'true' ? true : text === 'false' ? false : text),
}

/** A value from outside is text: where the schema wants a number or a boolean it becomes one. Says whether any did. */
function coerce(root: unknown, issues: readonly z.core.$ZodIssue[], outside: Map<string, string>) {
  let changed = false
  for (const issue of issues) {
    if (!outside.has(show(issue.path)) || issue.path.length === 0) continue
    const text = valueAt(root, issue.path)
    if (typeof text !== 'string') continue
    for (const [kind, convert] of Object.entries(coercions)) {
      if (!wants(issue, kind)) continue
      const value = convert(text)
      if (value === text) continue
      const parent = valueAt(root, issue.path.slice(0, -1)) as Record<PropertyKey, unknown>
      parent[issue.path.at(-1)!] = value
      changed = true
    }
  }
  return changed
}

function wants(issue: z.core.$ZodIssue, kind: string): boolean {
  if (issue.code === 'invalid_union')
    return issue.errors.flat().some((inner) => wants(inner as z.core.$ZodIssue, kind))
  return (
    issue.code === 'invalid_type' &&
    (issue.expected === kind || (kind === 'number' && issue.expected === 'int'))
  )
}

interface SchemaNode {
  properties?: Record<string, SchemaNode>
  items?: SchemaNode
  anyOf?: SchemaNode[]
}

/** The keys that the schema knows at a path. */
function knownKeys(path: Path): string[] {
  let nodes: SchemaNode[] = [jsonSchema() as SchemaNode]
  const open = (node: SchemaNode): SchemaNode[] => [node, ...(node.anyOf ?? []).flatMap(open)]
  for (const part of path)
    nodes = nodes
      .flatMap(open)
      .flatMap(
        (node) => (typeof part === 'number' ? node.items : node.properties?.[String(part)]) ?? [],
      )
  return nodes.flatMap(open).flatMap((node) => Object.keys(node.properties ?? {}))
}

function allowed(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected
    case 'too_small':
      return issue.origin === 'string' || issue.origin === 'array'
        ? `at least ${issue.minimum} ${issue.origin === 'string' ? 'characters' : 'entries'}`
        : `${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}`
    case 'too_big':
      return issue.origin === 'string' || issue.origin === 'array'
        ? `at most ${issue.maximum} ${issue.origin === 'string' ? 'characters' : 'entries'}`
        : `${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}`
    case 'invalid_value':
      return issue.values.map((value) => JSON.stringify(value)).join(' | ')
    case 'invalid_union':
      return [
        ...new Set(issue.errors.flat().map((inner) => allowed(inner as z.core.$ZodIssue))),
      ].join(' | ')
    default:
      return issue.message
  }
}

const secretPath = /(secret|password|key|token|redis|database)$/i

function describe(value: unknown, path: Path, outside: Map<string, string>): string {
  const source = outside.get(show(path))
  if (value === undefined) return 'nothing'
  if (source !== undefined) return `the value of ${source}`
  if (secretPath.test(String(path.at(-1)))) return `a ${typeof value}`
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 120 ? `${text.slice(0, 117)}…` : text
}

function faultsOf(
  issues: readonly z.core.$ZodIssue[],
  root: unknown,
  outside: Map<string, string>,
  lineOf: (path: Path) => number | null,
): ConfigFault[] {
  return issues.flatMap((issue): ConfigFault[] => {
    if (issue.code === 'unrecognized_keys') {
      const keys = knownKeys(issue.path)
      return issue.keys.map((key) => ({
        path: show([...issue.path, key]),
        line: lineOf([...issue.path, key]),
        found: 'a key that is not known',
        allowed: keys.length > 0 ? keys.join(', ') : 'no such key',
      }))
    }
    return [
      {
        path: show(issue.path),
        line: lineOf(issue.path),
        found: describe(valueAt(root, issue.path), issue.path, outside),
        allowed: allowed(issue),
      },
    ]
  })
}

/** Reads and checks one file. Never throws for what a user can write. */
export function loadConfig(file: string): LoadedConfig {
  const path = resolve(file)
  const files = [path]
  const whole = (found: string, allowedText: string, line: number | null = null): LoadedConfig => ({
    config: null,
    faults: [{ path: '', line, found, allowed: allowedText }],
    invalidOpd: new Set(),
    files,
  })
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    return whole(
      `no readable file at ${file} (${(error as NodeJS.ErrnoException).code})`,
      'a YAML file',
    )
  }
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  if (document.errors.length > 0)
    return {
      ...whole('', ''),
      faults: document.errors.map((error) => ({
        path: '',
        line: lines.linePos(error.pos[0]).line,
        found: error.message,
        allowed: 'YAML in which each key stands once',
      })),
    }
  const lineOf = (at: Path) => {
    const node = document.getIn(at as unknown[], true)
    const range =
      isMap(node) || isScalar(node) ? node.range : (node as { range?: number[] } | undefined)?.range
    return range == null ? null : lines.linePos(range[0]!).line
  }
  let root: unknown
  try {
    root = document.toJS({ maxAliasCount: 100 }) ?? {}
  } catch (error) {
    return whole((error as Error).message, 'at most 100 uses of an alias')
  }
  return check(root, dirname(path), files, lineOf)
}

/** Checks a configuration that is already a value, such as the embedded default. */
export function check(
  raw: unknown,
  base: string,
  files: string[] = [],
  lineOf: (path: Path) => number | null = () => null,
): LoadedConfig {
  const into: Expansion = { files, faults: [], outside: new Map(), tooDeep: false }
  const root = expand(raw, [], base, into)
  let result = configSchema.safeParse(root)
  if (!result.success && coerce(root, result.error.issues, into.outside))
    result = configSchema.safeParse(root)
  const unset = new Set(into.faults.map((fault) => show(fault.path)))
  const faults = into.faults.map((fault) => ({
    ...fault,
    path: show(fault.path),
    line: lineOf(fault.path),
  }))
  const invalidOpd = new Set<string>()
  for (const { path, found, allowed } of crossFaults(root))
    faults.push({ path: show(path), line: lineOf(path), found, allowed })
  if (!result.success) {
    const issues = result.error.issues.filter((issue) => !unset.has(show(issue.path)))
    faults.push(...faultsOf(issues, root, into.outside, lineOf))
  }
  if (faults.length === 0) return { config: result.data ?? null, faults, invalidOpd, files }
  const opdBlock = /^suppliers\[(\d+)\]\.opd(\.|$|\[)/
  if (!faults.every((fault) => opdBlock.test(fault.path)))
    return { config: null, faults, invalidOpd, files }
  const suppliers = (root as { suppliers: Record<string, unknown>[] }).suppliers
  for (const fault of faults) {
    const supplier = suppliers[Number(opdBlock.exec(fault.path)![1])]!
    invalidOpd.add(String(supplier['id']))
    delete supplier['opd']
  }
  const rest = configSchema.safeParse(root)
  return { config: rest.data ?? null, faults, invalidOpd, files }
}

/** One line a fault: `bidweir.yaml:12: suppliers[0].timeout: found "fast", allowed: a duration …`. */
export function faultLine(fault: ConfigFault, file: string): string {
  const place = fault.line === null ? file : `${file}:${fault.line}`
  return `${place}: ${fault.path === '' ? '' : `${fault.path}: `}found ${fault.found}, allowed: ${fault.allowed}`
}
