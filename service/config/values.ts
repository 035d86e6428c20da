/** Expands values from outside of the file, `${ENV_NAME}` and `{file: path}`, and converts them to the type of the key. */
import { resolve } from 'node:path'
import type * as z from 'zod'
import { type FileVersions, readText } from './files.ts'

/** Where a value is, as faults name it: `suppliers[0].opd.minFactor`. */
export type Path = readonly PropertyKey[]

const plainKey = /^[^.[\]"]+$/

/**
 * The path as in a fault. A key with a character of the path's own is quoted: `callers.headers["x.key"]`.
 *
 * @param path keys, and indexes of lists from 0
 */
export const pathText = (path: Path) =>
  path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`
    const key = String(part)
    if (!plainKey.test(key)) return `${text}[${JSON.stringify(key)}]`
    return text === '' ? key : `${text}.${key}`
  }, '')

const pathPart = /\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|([^.[\]"]+)/g

/** The path that `pathText` wrote. */
export const pathOf = (text: string): Path =>
  [...text.matchAll(pathPart)].map(([, quoted, index, key]) =>
    quoted !== undefined ? JSON.parse(quoted) : index !== undefined ? Number(index) : key!,
  )

export function valueAt(root: unknown, path: Path): unknown {
  let value = root
  for (const part of path)
    value = (value as Record<PropertyKey, unknown> | null | undefined)?.[part]
  return value
}

export interface Expansion {
  files: FileVersions
  /** Those of them that do not belong to a supplier. */
  nodeFiles: Set<string>
  faults: { path: Path; found: string; allowed: string }[]
  /** Source of each value from outside of the file, by path. Such a value is text and may have to become a number. */
  external: Map<string, string>
  tooDeep: boolean
  /**
   * If the values come through the API: the most bytes of a file, and which files it must not name. Faults then do not say
   * why a file cannot be read: an operator could find out which files the node has.
   */
  fromApi?: { maxBytes: number; isOwn(file: string): boolean }
}

export const variable = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g

/** The schema is less deep. An alias that contains itself is deeper. */
const maxDepth = 20

function expandText(text: string, path: Path, into: Expansion): string {
  if (!text.includes('${')) return text
  return text.replace(variable, (_whole, name: string) => {
    const value = process.env[name]
    into.external.set(pathText(path), `\${${name}}`)
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
  const name = `{file: ${reference}}`
  into.external.set(pathText(path), name)
  const { fromApi } = into
  if (fromApi?.isOwn(file)) {
    const allowed = 'a file that is for suppliers'
    into.faults.push({ path, found: `${name}, which is a file of the node itself`, allowed })
    return undefined
  }
  const read = readText(file, fromApi?.maxBytes)
  into.files.set(file, read.version)
  if (path[0] !== 'suppliers') into.nodeFiles.add(file)
  if ('text' in read) return read.text.replace(/\r?\n$/, '')
  into.faults.push(
    fromApi === undefined
      ? { path, found: `${name}, ${read.fault}`, allowed: read.allowed }
      : {
          path,
          found: `${name}, which cannot be read`,
          allowed: `a file of at most ${fromApi.maxBytes} bytes`,
        },
  )
  return undefined
}

function isFileReference(value: object): value is { file: string } {
  const [first, ...rest] = Object.entries(value)
  return first?.[0] === 'file' && typeof first[1] === 'string' && rest.length === 0
}

/** Whether the whole value comes from outside: `{file: path}`, or text that is one variable. */
export const isReference = (value: unknown): boolean =>
  typeof value === 'string'
    ? /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/.test(value)
    : typeof value === 'object' && value !== null && isFileReference(value)

/** The value with its `${ENV_NAME}` and `{file: path}` replaced. `base`: the folder of relative paths. */
export function expand(value: unknown, path: Path, base: string, into: Expansion): unknown {
  if (path.length > maxDepth) {
    if (!into.tooDeep)
      into.faults.push({
        path: path.slice(0, 2),
        found: 'a value without end',
        allowed: `${maxDepth} levels`,
      })
    into.tooDeep = true
  }
  if (into.tooDeep) return undefined
  if (typeof value === 'string') return expandText(value, path, into)
  if (Array.isArray(value))
    return value.map((item, index) => expand(item, [...path, index], base, into))
  if (value === null || typeof value !== 'object') return value
  if (isFileReference(value)) return readReference(value.file, path, base, into)
  const entries = Object.entries(value)
  return Object.fromEntries(
    entries.map(([key, item]) => [key, expand(item, [...path, key], base, into)]),
  )
}

/** The number or boolean that a text spells, otherwise the text. */
function scalarOf(text: string): unknown {
  if (text === 'true' || text === 'false') return text === 'true'
  return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text
}

/** Converts text from outside of the file where the schema expects another type. Returns whether any changed. */
export function coerce(
  root: unknown,
  issues: readonly z.core.$ZodIssue[],
  external: ReadonlyMap<string, string>,
): boolean {
  let changed = false
  for (const { code, path } of issues) {
    if (code !== 'invalid_type' && code !== 'invalid_union') continue
    if (path.length === 0 || !external.has(pathText(path))) continue
    const text = valueAt(root, path)
    const value = typeof text === 'string' ? scalarOf(text) : text
    if (value === text) continue
    const parent = valueAt(root, path.slice(0, -1)) as Record<PropertyKey, unknown>
    parent[path.at(-1)!] = value
    changed = true
  }
  return changed
}
