/** Faults of a configuration in words: path, found value, allowed value. Secrets are not repeated. */

import type * as z from 'zod'
import { Lazy } from '../../opd/base/lazy.ts'
import { jsonSchema } from './schema.ts'
import { type Path, pathText, valueAt } from './values.ts'

export interface ConfigFault {
  /** `suppliers[0].opd.minFactor`; empty for the file as a whole. */
  path: string
  /** 1-based; null if the value is not in the file. */
  line: number | null
  /** The file or folder of `suppliersFrom` that has the fault; without it, the configuration file. */
  file?: string
  found: string
  allowed: string
}

type Issue = z.core.$ZodIssue

interface SchemaNode {
  properties?: Record<string, SchemaNode>
  items?: SchemaNode
  anyOf?: SchemaNode[]
}

/** Created once: ten thousand suppliers may share one unknown key. */
const schema = new Lazy(() => jsonSchema() as SchemaNode)

/** The keys that the schema knows at a path. */
function knownKeys(path: Path): string[] {
  let nodes: SchemaNode[] = [schema.value]
  const open = (node: SchemaNode): SchemaNode[] => [node, ...(node.anyOf ?? []).flatMap(open)]
  for (const part of path)
    nodes = nodes
      .flatMap(open)
      .flatMap(
        (node) => (typeof part === 'number' ? node.items : node.properties?.[String(part)]) ?? [],
      )
  return nodes.flatMap(open).flatMap((node) => Object.keys(node.properties ?? {}))
}

const units: Readonly<Record<string, string>> = { string: ' characters', array: ' entries' }

function allowed(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      if (!issue.message.startsWith('Invalid input')) return issue.message
      return issue.expected === 'record' ? 'names with values' : issue.expected
    case 'invalid_key':
      return issue.issues[0]?.message ?? issue.message
    case 'too_small':
      return `${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}${units[issue.origin] ?? ''}`
    case 'too_big':
      return `${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}${units[issue.origin] ?? ''}`
    case 'invalid_value':
      return issue.values.map((value) => JSON.stringify(value)).join(' | ')
    case 'invalid_union':
      return [...new Set(issue.errors.flat().map(allowed))].join(' | ')
    default:
      return issue.message
  }
}

/** YAML reads `id: 17` as a number and `name: yes` as a boolean. */
const needsQuotes = (issue: Issue, value: unknown) =>
  issue.code === 'invalid_type' &&
  issue.expected === 'string' &&
  (typeof value === 'number' || typeof value === 'boolean')

const secretName = /(secret|secretFrom|password|keys?|token|redis|database|store|headers)$/i
const isSecret = (path: Path) => {
  const names = path.filter((part) => typeof part === 'string')
  return secretName.test(names.at(-1) ?? '') || names.includes('headers')
}
/** User and password of an address. */
const userinfo = /\/\/[^/?#\s"]*@/g

function describe(value: unknown, path: Path, external: ReadonlyMap<string, string>): string {
  const source = external.get(pathText(path))
  if (value === undefined) return 'nothing'
  if (source !== undefined) return `the value of ${source}`
  if (isSecret(path) && value !== null)
    return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
  if (typeof value === 'number') return String(value)
  const hidden = (name: string, inner: unknown) =>
    name !== '' && secretName.test(name) ? '…' : inner
  const text = (JSON.stringify(value, hidden) ?? String(value)).replace(userinfo, '//…@')
  return text.length > 120 ? `${text.slice(0, 117)}…` : text
}

/** The branch of a union that the author probably intended: the one with the fewest unknown keys. */
function intendedBranch(issue: Issue, value: unknown): Issue[] | null {
  if (issue.code !== 'invalid_union' || value === null || typeof value !== 'object') return null
  const unknownKeys = (branch: readonly Issue[]) =>
    branch.reduce((sum, inner) => {
      const unknown = inner.code === 'unrecognized_keys' && inner.path.length === 0
      return unknown ? sum + inner.keys.length : sum
    }, 0)
  const [best] = [...issue.errors].sort((one, other) => unknownKeys(one) - unknownKeys(other))
  return best?.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })) ?? null
}

/** Whether one insertion, deletion or replacement of a character makes one text of the other. */
function isOneEdit(one: string, other: string): boolean {
  let start = 0
  while (start < one.length && one[start] === other[start]) start++
  const [rest, others] = [one.slice(start), other.slice(start)]
  return rest === others.slice(1) || rest.slice(1) === others || rest.slice(1) === others.slice(1)
}

/** The known key that was probably meant: `endpoint` for `endpoints`, `timeOut` for `timeout`. */
function meant(key: string, keys: readonly string[]): string {
  const lower = key.toLowerCase()
  const found = keys.find((known) => isOneEdit(lower, known.toLowerCase()))
  return found === undefined ? '' : ` (is ${found} meant?)`
}

export function faultsOf(
  issues: readonly Issue[],
  root: unknown,
  external: ReadonlyMap<string, string>,
  lineOf: (path: Path) => number | null,
  /** The keys of the document. */
  topKeys: readonly string[] = knownKeys([]),
): ConfigFault[] {
  return issues.flatMap((issue): ConfigFault[] => {
    const value = valueAt(root, issue.path)
    const inner = intendedBranch(issue, value)
    if (inner !== null) return faultsOf(inner, root, external, lineOf, topKeys)
    if (issue.code === 'unrecognized_keys') {
      const keys = issue.path.length === 0 ? topKeys : knownKeys(issue.path)
      return issue.keys.map((key) => ({
        path: pathText([...issue.path, key]),
        line: lineOf([...issue.path, key]),
        found: `a key that is not known${meant(key, keys)}`,
        allowed: keys.length > 0 ? keys.join(', ') : 'no such key',
      }))
    }
    return [
      {
        path: pathText(issue.path),
        line: lineOf(issue.path),
        found: describe(value, issue.path, external),
        allowed: allowed(issue) + (needsQuotes(issue, value) ? ': write it in quotes' : ''),
      },
    ]
  })
}

/**
 * One line a fault: `bidweir.yaml:12: suppliers[0].timeout: found "fast", allowed: a duration …`.
 *
 * @param fault a fault; one of a file that the configuration includes names that file
 * @param file the name of the configuration file, for the others
 */
export function faultLine(fault: ConfigFault, file: string): string {
  const name = fault.file ?? file
  const place = fault.line === null ? name : `${name}:${fault.line}`
  return `${place}: ${fault.path === '' ? '' : `${fault.path}: `}found ${fault.found}, allowed: ${fault.allowed}`
}
