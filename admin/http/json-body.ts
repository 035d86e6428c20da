/** Strict parser for JSON bodies: UTF-8, one value, no key twice in an object. */
import { isUtf8 } from 'node:buffer'
import type { FastifyInstance } from 'fastify'
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
export const escapePart = (part: string) => part.replaceAll('~', '~0').replaceAll('/', '~1')

export function parseJson(body: Buffer): { value: unknown } | { faults: ProblemFault[] } {
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
