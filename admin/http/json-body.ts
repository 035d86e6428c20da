/**
 * Strict parser for JSON bodies: UTF-8, one value, no key twice in an object, then the schema of the call.
 */
import { isUtf8 } from 'node:buffer'
import type { FastifyInstance } from 'fastify'
import type * as z from 'zod'
import type { ProblemFault } from './problem.ts'

/** Limits of depth, names of an object and entries of an array; valid bodies stay far below. */
const limits = { levels: 32, names: 100, entries: 1000 } as const
/** Faults that are reported: a body may contain a hundred thousand. */
const maxFaults = 100

interface Level {
  /** null: an array. */
  keys: Set<string> | null
  part: string
  index: number
}

const backslash = 92

/** The offset after the string that begins at `at`. */
function afterString(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0
    while (text.charCodeAt(end - 1 - slashes) === backslash) slashes++
    if (slashes % 2 === 0) return end + 1
  }
  return text.length
}

/** A key without its escapes. JSON.parse reports invalid JSON later. */
function unescapedKey(key: string): string {
  if (!key.includes('\\')) return key.slice(1, -1)
  try {
    return JSON.parse(key) as string
  } catch {
    return key
  }
}

interface ScanResult {
  /** Repeated keys. */
  repeated: ProblemFault[]
  /** The first exceeded limit: parsing such a body would block the event loop for a second. */
  excess: ProblemFault | null
}

/** Scans the text before it is parsed. The text may not be JSON at all. */
function scan(text: string): ScanResult {
  const repeated: ProblemFault[] = []
  const stack: Level[] = []
  let last = ''
  const excess = (detail: string): ScanResult => ({
    repeated,
    excess: { pointer: pointer(stack), detail },
  })
  for (let at = 0; at < text.length && repeated.length < maxFaults; at++) {
    const top = stack.at(-1)
    const char = text[at]
    if (char === '"') {
      const end = afterString(text, at)
      if (top?.keys != null) last = text.slice(at, end)
      at = end - 1
    } else if (char === '{' || char === '[') {
      if (stack.length === limits.levels)
        return excess(`nested deeper than ${limits.levels} levels`)
      stack.push({ keys: char === '{' ? new Set() : null, part: '', index: 0 })
    } else if (char === '}' || char === ']') stack.pop()
    else if (char === ',' && top?.keys === null) {
      if (++top.index === limits.entries) return excess(`more than ${limits.entries} entries`)
    } else if (char === ':' && top?.keys != null) {
      top.part = unescapedKey(last)
      if (top.keys.has(top.part))
        repeated.push({ pointer: pointer(stack), detail: 'this key is repeated' })
      if (top.keys.add(top.part).size > limits.names)
        return excess(`more than ${limits.names} names`)
    }
  }
  return { repeated, excess: null }
}

const pointer = (stack: readonly Level[]) =>
  stack
    .map(({ keys, part, index }) => `/${escapePart(keys === null ? String(index) : part)}`)
    .join('')

/** Handlers get the bytes of a body: its repeated keys, its encoding and the text of its numbers matter. */
export function takeJsonAsBytes(app: FastifyInstance, bodyLimit: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer', bodyLimit },
    (_request, body, done) => done(null, body),
  )
}

/** RFC 6901 3 */
const escapePart = (part: string) => part.replaceAll('~', '~0').replaceAll('/', '~1')

function parseJson(body: Buffer): { value: unknown } | { faults: ProblemFault[] } {
  if (!isUtf8(body)) return { faults: [{ pointer: '', detail: 'the body is not UTF-8' }] }
  const text = body.toString()
  const { repeated, excess } = scan(text)
  if (excess !== null) return { faults: [excess] }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return {
      faults: [{ pointer: '', detail: `the body is not JSON: ${(error as Error).message}` }],
    }
  }
  return repeated.length === 0 ? { value } : { faults: repeated }
}

/** Faults in one response. */
const most = 100

/** Names of the list of data centers. A body has at most one of them. */
const aliases = ['datacenters', 'svc', 'the service']

function aliased(value: unknown): { value: unknown; name: string } | { faults: ProblemFault[] } {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    return { faults: [{ pointer: '', detail: 'must be a JSON object' }] }
  const names = aliases.filter((name) => Object.hasOwn(value, name))
  if (names.length > 1)
    return {
      faults: names.map((name) => ({
        pointer: `/${name}`,
        detail: 'the list of data centers is repeated',
      })),
    }
  const [name = 'datacenters'] = names
  if (name === 'datacenters') return { value, name }
  const { [name]: list, ...rest } = value as Record<string, unknown>
  return { value: { ...rest, datacenters: list }, name }
}

type Parsed<T> =
  | { value: T; named: (faults: readonly ProblemFault[]) => ProblemFault[] }
  | { faults: ProblemFault[] }

const kinds: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'a boolean',
  array: 'a list',
  object: 'an object',
}
const lengths: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' }

/** The messages of zod in the words of the API. A message that a schema gives stays as it is. */
function detailOf(issue: z.core.$ZodIssue): string {
  const { message } = issue
  if (issue.code === 'invalid_type' && message.startsWith('Invalid input'))
    return issue.input === undefined
      ? 'is required'
      : `must be ${kinds[issue.expected] ?? issue.expected}`
  if (issue.code === 'too_small' && message.startsWith('Too small')) {
    const unit = lengths[issue.origin]
    if (unit === undefined) return `must be at least ${issue.minimum}`
    return issue.minimum === 1 ? 'must not be empty' : `must have at least ${issue.minimum} ${unit}`
  }
  if (issue.code === 'too_big' && message.startsWith('Too big')) {
    const unit = lengths[issue.origin]
    return unit === undefined
      ? `must be at most ${issue.maximum}`
      : `must have at most ${issue.maximum} ${unit}`
  }
  return message
}

/**
 * Strict JSON, then the aliases of `datacenters`, then the schema. `named` replaces `/datacenters` in the pointers of later
 * faults by the name that the client used.
 */
export function parsed<T>(body: unknown, schema: z.ZodType<T>): Parsed<T> {
  const json = parseJson(Buffer.isBuffer(body) ? body : Buffer.alloc(0))
  if ('faults' in json) return json
  const plain = aliased(json.value)
  if ('faults' in plain) return plain
  const named = (faults: readonly ProblemFault[]) =>
    faults.slice(0, most).map(({ pointer, detail }) => ({
      pointer: pointer.replace(/^\/datacenters(?=\/|$)/, `/${plain.name}`),
      detail,
    }))
  const result = schema.safeParse(plain.value, { reportInput: true })
  if (result.success) return { value: result.data, named }
  const faults = result.error.issues.flatMap((issue): ProblemFault[] => {
    const at = issue.path.map((part) => `/${escapePart(String(part))}`).join('')
    return issue.code === 'unrecognized_keys'
      ? issue.keys.slice(0, most).map((key) => ({
          pointer: `${at}/${escapePart(key)}`,
          detail: 'unknown field',
        }))
      : [{ pointer: at, detail: detailOf(issue) }]
  })
  return { faults: named(faults) }
}
