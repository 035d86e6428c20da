/** Values that stand outside of the file: `${ENV_NAME}` and `{file: path}`, and the types they have to take. */
import { resolve } from 'node:path'
import type * as z from 'zod'
import { type Path, show, valueAt } from './path.ts'
import { readText } from './read.ts'

export interface Expansion {
  files: string[]
  faults: { path: Path; found: string; allowed: string }[]
  /** Where a value came from outside of the file, and from where: it is text and may have to become a number. */
  outside: Map<string, string>
  tooDeep: boolean
}

const variable = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g
/**
 * `{limit: ${N}}` is no YAML, for braces end a plain value there: while the file is parsed a variable stands between
 * two letters of no language (Unicode's private use) instead.
 */
const hidden = /\ue000([A-Za-z0-9_]+)\ue001/g
export const hide = (text: string) => text.replace(variable, '\ue000$1\ue001')
export const unhide = (text: string) => text.replace(hidden, '${$1}')

function expandText(shown: string, path: Path, into: Expansion): string {
  const text = unhide(shown)
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
  const name = `{file: ${unhide(reference)}}`
  into.files.push(file)
  into.outside.set(show(path), name)
  const read = readText(file)
  if ('text' in read) return read.text.replace(/\r?\n$/, '')
  into.faults.push({ path, found: `${name}, ${read.fault}`, allowed: read.allowed })
  return undefined
}

/** Nothing in the schema is deeper; an alias that holds itself is. */
const deepest = 20

export function expand(value: unknown, path: Path, base: string, into: Expansion): unknown {
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
    entries.map(([spelled, item]) => {
      const key = unhide(spelled)
      return [key, expand(item, [...path, key], base, into)]
    }),
  )
}

const coercions: Readonly<Record<string, (text: string) => unknown>> = {
  number: (text) => (text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text),
  boolean: (text) => (text === 'true' ? true : text === 'false' ? false : text),
}

/** A value from outside is text: where the schema wants a number or a boolean it becomes one. Says whether any did. */
export function coerce(
  root: unknown,
  issues: readonly z.core.$ZodIssue[],
  outside: Map<string, string>,
) {
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
