/** Finds `tmax` in a bid request before it is sent, for the deadline. */
import { KeyTable, type Read } from '../json/scanner.ts'
import { BRACE, malformed, number, QUOTE } from '../json/syntax.ts'
import { TextScanner } from '../json/text-scanner.ts'

interface Tmax {
  value: unknown
  times: number
}

const keys = new KeyTable<Tmax>({
  tmax: (scan, at, tmax) => {
    tmax.times++
    const end = scan.read(at)
    // A number at the end of the text may be truncated. A complete object ends with a brace.
    tmax.value = end === scan.text.length ? undefined : scan.value
    return end
  },
})
const root: Read<Tmax> = (scan, at, tmax) =>
  scan.text.charCodeAt(at) === BRACE ? scan.object(at, keys, tmax) : malformed

const positive = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined

const word = '"tmax"'

/** Bytes of a request that are searched for `tmax`, before it is sent (0.4 ms at worst). */
export const tmaxSearchBytes = 64 * 1024

/**
 * The top-level `tmax` in milliseconds. It is ignored if it is not a positive integer, is repeated, or is after the first
 * `tmaxSearchBytes` bytes. A body without the word costs two searches; otherwise the body is scanned up to the word.
 */
export function findTmax(request: Buffer): number | undefined {
  const body = request.length > tmaxSearchBytes ? request.subarray(0, tmaxSearchBytes) : request
  const at = body.indexOf(word)
  const escapes = body.includes('\\u00')
  if (at < 0 && !escapes) return undefined
  if (!escapes && body.indexOf(word, at + word.length) < 0) {
    const value = single(body, at)
    if (value !== 'far') return value
  }
  const tmax: Tmax = { value: undefined, times: 0 }
  new TextScanner(body, false).document(root, tmax)
  return tmax.times === 1 ? positive(tmax.value) : undefined
}

/** The value, if the only occurrence of the word is a top-level key. `far`: the value does not end within 64 bytes. */
function single(body: Buffer, key: number): number | 'far' | undefined {
  const length = Math.min(body.length, key + word.length + 64)
  const text = body.toString('latin1', 0, length)
  let depth = 0
  let at = 0
  for (; at < key; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = stringEnd(text, at) - 1
      if (at < 0) return undefined
    } else if (code === BRACE || code === 91) depth++
    else if (code === 125 || code === 93) depth--
  }
  // A string value is not a key, even if invalid JSON has a colon after it.
  let before = key - 1
  while (text.charCodeAt(before) <= 32) before--
  const opens = text.charCodeAt(before) === BRACE || text.charCodeAt(before) === 44
  if (at !== key || depth !== 1 || !opens) return undefined
  at = space(text, key + word.length)
  if (at === length) return 'far'
  if (text.charCodeAt(at) !== 58) return undefined
  at = space(text, at + 1)
  const end = number(text, at)
  if (at === length || end === length) return 'far'
  return end === malformed ? undefined : positive(Number(text.slice(at, end)))
}

/** The position after the string that begins at `at`; -1: the string has no end. */
function stringEnd(text: string, at: number): number {
  let quote = text.indexOf('"', at + 1)
  while (quote > 0) {
    let slashes = quote
    while (text.charCodeAt(slashes - 1) === 92) slashes--
    if (((quote - slashes) & 1) === 0) return quote + 1
    quote = text.indexOf('"', quote + 1)
  }
  return malformed
}

function space(text: string, at: number): number {
  while (text.charCodeAt(at) <= 32) at++
  return at
}
