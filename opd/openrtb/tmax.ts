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
const beforeX = '"tma'

/** Bytes of a request that are searched for `tmax`, before it is sent (0.4 ms at worst). */
export const tmaxSearchBytes = 64 * 1024

/**
 * The top-level `tmax` in milliseconds; `request` may be the body as latin1 text. It is ignored if it is not a positive
 * integer, is repeated, or is after the first `tmaxSearchBytes` bytes. A body without the word costs two searches;
 * otherwise the body is scanned up to the word.
 */
export function findTmax(request: Buffer | string): number | undefined {
  const text =
    typeof request === 'string'
      ? request.slice(0, tmaxSearchBytes)
      : request.toString('latin1', 0, Math.min(request.length, tmaxSearchBytes))
  const at = wordAt(text, 0)
  const escapes = text.includes('\\u00')
  if (at < 0 && !escapes) return undefined
  if (!escapes && wordAt(text, at + word.length) < 0) return single(text, at)
  const tmax: Tmax = { value: undefined, times: 0 }
  new TextScanner(Buffer.from(text, 'latin1'), false).document(root, tmax)
  return tmax.times === 1 ? positive(tmax.value) : undefined
}

/** Pairs of `x` and a quote after which the word itself is searched for: each one costs a call. */
const maxPairs = 32

/** The first position of the word at or after `from`; -1: none. Its rarest letter is found first: V8 stops at no other. */
function wordAt(text: string, from: number): number {
  let x = text.indexOf('x"', from)
  for (let pairs = 0; x >= 0; x = text.indexOf('x"', x + 2)) {
    if (text.startsWith(beforeX, x - beforeX.length)) return x - beforeX.length
    if (++pairs === maxPairs) return text.indexOf(word, x)
  }
  return -1
}

/** The value, if the only occurrence of the word is a top-level key. */
function single(text: string, key: number): number | undefined {
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
  if (text.charCodeAt(at) !== 58) return undefined
  at = space(text, at + 1)
  const end = number(text, at)
  // A number at the end of the text may be truncated.
  return end === malformed || end === text.length
    ? undefined
    : positive(Number(text.slice(at, end)))
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
