/**
 * Strict parser for JSON bodies: UTF-8, one value, no key twice in an object, then the schema of the call. Throws a
 * problem that names every fault.
 */
import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type * as z from 'zod'
import { createSlices, drained, inSlices } from '../../opd/base/slices.ts'
import { malformed, type ProblemFault } from './problem.ts'

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

const fault = (pointer: string, detail: string) => malformed([{ pointer, detail }])
const backslash = 92

/** The offset after the string that begins at `at`. */
function afterString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
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

/**
 * A part of a JSON pointer (RFC 6901 3).
 *
 * @param part a name, not escaped
 */
export const escapePart = (part: string) => part.replaceAll('~', '~0').replaceAll('/', '~1')

const pointerOf = (stack: readonly Level[]) =>
  stack
    .map(({ keys, part, index }) => `/${escapePart(keys === null ? String(index) : part)}`)
    .join('')

interface Scanned {
  repeated: ProblemFault[]
  /** Begin and end of each object of the list: the body is a list, or an object with one. */
  objects: [from: number, to: number][]
}

/** Characters between two yields: a tenth of a millisecond. */
const scanStep = 16 * 1024

/**
 * Scans the text before it is parsed, which may not be JSON at all. Throws at the first exceeded limit: parsing such a
 * body would block the event loop for a second.
 */
function* scanned(text: string, entries: number): Generator<void, Scanned> {
  const repeated: ProblemFault[] = []
  const objects: [number, number][] = []
  const stack: Level[] = []
  let lastString = ''
  let nextYield = 0
  const excess = (detail: string) => fault(pointerOf(stack), detail)
  const isInList = () =>
    stack.at(-1)?.keys === null &&
    (stack.length === 1 || (stack.length === 2 && stack[0]!.keys !== null))
  for (let index = 0; index < text.length && repeated.length < maxFaults; index++) {
    if (index > nextYield) {
      nextYield = index + scanStep
      yield
    }
    const top = stack.at(-1)
    const char = text[index]
    if (char === '"') {
      const end = afterString(text, index)
      if (top?.keys != null) lastString = text.slice(index, end)
      index = end - 1
    } else if (char === '{' || char === '[') {
      if (stack.length === limits.levels) throw excess(`nested deeper than ${limits.levels} levels`)
      if (char === '{' && isInList()) objects.push([index, -1])
      stack.push({ keys: char === '{' ? new Set() : null, part: '', index: 0 })
    } else if (char === '}' || char === ']') {
      stack.pop()
      if (char === '}' && objects.length > 0 && isInList()) objects.at(-1)![1] = index + 1
    } else if (char === ',' && top?.keys === null) {
      if (++top.index === entries) throw excess(`more than ${entries} entries`)
    } else if (char === ':' && top?.keys != null) {
      top.part = unescapedKey(lastString)
      if (top.keys.has(top.part))
        repeated.push({ pointer: pointerOf(stack), detail: 'this key is repeated' })
      if (top.keys.add(top.part).size > limits.names)
        throw excess(`more than ${limits.names} names`)
    }
  }
  return { repeated, objects }
}

/**
 * Handlers get the bytes of a body: its repeated keys, its encoding and the text of its numbers matter.
 *
 * @param bodyLimit bytes; a longer body is 413
 */
export function takeJsonAsBytes(
  app: FastifyInstance,
  bodyLimit: number,
  types: string[] = ['application/json'],
): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(types, { parseAs: 'buffer', bodyLimit }, (_request, body, done) =>
    done(null, body),
  )
}

function parseJson(body: Buffer, entries: number = limits.entries): unknown {
  if (!isUtf8(body)) throw fault('', 'the body is not UTF-8')
  const text = body.toString()
  const { repeated } = drained(scanned(text, entries))
  const value = parsed(text)
  if (repeated.length > 0) throw malformed(repeated)
  return value
}

function parsed(text: string, pointer = ''): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw fault(pointer, `the body is not JSON: ${(error as Error).message}`)
  }
}

/**
 * Strict JSON of a list that may be long, or of an object with one, in time slices: each object of the list is parsed by
 * itself, then the rest of the text, where they are empty.
 *
 * @param entries the longest list
 * @throws Problem if the body is no such JSON, or the list is longer
 */
export async function longListOf({ body }: FastifyRequest, entries: number): Promise<unknown> {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from('')
  if (!isUtf8(bytes)) throw fault('', 'the body is not UTF-8')
  const text = bytes.toString()
  const { repeated, objects } = await inSlices(scanned(text, entries))
  if (repeated.length > 0) throw malformed(repeated)
  const slices = createSlices()
  const values: unknown[] = []
  let rest = ''
  let restFrom = 0
  for (const [index, [from, to]] of objects.entries()) {
    if (to < 0) continue
    values.push(parsed(text.slice(from, to), `/${index}`))
    rest += `${text.slice(restFrom, from)}{}`
    restFrom = to
    await slices.next()
  }
  const root = parsed(rest + text.slice(restFrom))
  const lists = Array.isArray(root) ? [root] : Object.values(root ?? {}).filter(Array.isArray)
  const next = values.values()
  for (const list of lists)
    for (const [index, entry] of list.entries())
      if (entry !== null && typeof entry === 'object' && !Array.isArray(entry))
        list[index] = next.next().value
  return root
}

/**
 * Strict JSON without a schema.
 *
 * @param entries most elements of a list, 1 or more
 * @throws Problem if the body is no such JSON
 */
export const jsonOf = ({ body }: FastifyRequest, entries?: number): unknown =>
  parseJson(Buffer.isBuffer(body) ? body : Buffer.from(''), entries)

/** Names of the list of data centers. A body has at most one of them. */
const aliases = ['datacenters', 'svc', 'the service']

/** The body with the list under its first name, and the name that the client used. */
function withoutAlias(value: unknown): { value: object; name: string } {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw fault('', 'must be a JSON object')
  const names = aliases.filter((name) => Object.hasOwn(value, name))
  if (names.length > 1) {
    const detail = 'the list of data centers is repeated'
    throw malformed(names.map((name) => ({ pointer: `/${name}`, detail })))
  }
  const [name = 'datacenters'] = names
  if (name === 'datacenters') return { value, name }
  const { [name]: list, ...rest } = value as Record<string, unknown>
  return { value: { ...rest, datacenters: list }, name }
}

const kinds: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'a boolean',
  array: 'a list',
  object: 'an object',
}
const units: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' }

/** The messages of zod in the words of the API. A message that a schema gives stays as it is. */
function detailOf(issue: z.core.$ZodIssue): string {
  const { message } = issue
  if (issue.code === 'invalid_type' && message.startsWith('Invalid input'))
    return issue.input === undefined
      ? 'is required'
      : `must be ${kinds[issue.expected] ?? issue.expected}`
  if (issue.code === 'too_small' && message.startsWith('Too small')) {
    const unit = units[issue.origin]
    if (unit === undefined) return `must be at least ${issue.minimum}`
    return issue.minimum === 1 ? 'must not be empty' : `must have at least ${issue.minimum} ${unit}`
  }
  if (issue.code === 'too_big' && message.startsWith('Too big')) {
    const unit = units[issue.origin]
    return unit === undefined
      ? `must be at most ${issue.maximum}`
      : `must have at most ${issue.maximum} ${unit}`
  }
  return message
}

/**
 * The faults of one issue of a schema: an unknown field is one each, of which the first are named.
 *
 * @param issue its path is from the root of the body
 */
export function faultsOf(issue: z.core.$ZodIssue): ProblemFault[] {
  const pointer = issue.path.map((part) => `/${escapePart(String(part))}`).join('')
  if (issue.code !== 'unrecognized_keys') return [{ pointer: pointer, detail: detailOf(issue) }]
  const keys = issue.keys.slice(0, maxFaults)
  return keys.map((key) => ({ pointer: `${pointer}/${escapePart(key)}`, detail: 'unknown field' }))
}

/**
 * Strict JSON, then the aliases of `datacenters`, then the schema. `named` replaces `/datacenters` in the pointers of
 * later faults by the name that the client used.
 *
 * @param absent the text of a body that was not sent
 * @throws Problem that names every fault
 */
export function namedBodyOf<T>(schema: z.ZodType<T>, { body }: FastifyRequest, absent = '') {
  const json = parseJson(Buffer.isBuffer(body) ? body : Buffer.from(absent))
  const { value, name } = withoutAlias(json)
  const named = (faults: readonly ProblemFault[]) =>
    faults.slice(0, maxFaults).map(({ pointer, detail }) => ({
      pointer: pointer.replace(/^\/datacenters(?=\/|$)/, `/${name}`),
      detail,
    }))
  const result = schema.safeParse(value, { reportInput: true })
  if (!result.success) throw malformed(named(result.error.issues.flatMap(faultsOf)))
  return { value: result.data, named }
}

/**
 * The body of a request, checked.
 *
 * @param absent what an absent body is read as; default: an absent body is a fault
 * @throws a problem that names every fault
 */
export const bodyOf = <T>(schema: z.ZodType<T>, request: FastifyRequest, absent?: string): T =>
  namedBodyOf(schema, request, absent).value
