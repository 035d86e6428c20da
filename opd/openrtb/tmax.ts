/** Finds `tmax` in a bid request before it is sent, for the deadline. */
import type { Body } from '../json/scanner.ts'

/** Bytes of a request that are searched for `tmax`, before it is sent (0.4 ms at worst). */
export const tmaxSearchBytes = 64 * 1024

const word = '"tmax"'
const beforeX = '"tma'

/**
 * The top-level `tmax` in milliseconds. It is ignored if it is not a positive integer, is repeated, or is after the first
 * `tmaxSearchBytes` bytes. A body without the word costs two searches; otherwise the body is scanned up to the word.
 */
export function findTmax(request: Body): number | undefined {
  const text =
    typeof request === 'string'
      ? request.slice(0, tmaxSearchBytes)
      : request.toString('latin1', 0, Math.min(request.length, tmaxSearchBytes))
  const first = wordAt(text, 0)
  if (text.includes('\\u00')) return topLevel(text, text.length)
  if (first < 0) return undefined
  const isOnly = wordAt(text, first + word.length) < 0
  return topLevel(text, isOnly ? first : text.length)
}

/** After so many occurrences of `x"` the word itself is searched for, because each occurrence costs a call. */
const maxPairs = 32

/** The first position of the word at or after `from`; -1: none. Its rarest letters are searched first, which V8 does fast. */
function wordAt(text: string, from: number): number {
  let x = text.indexOf('x"', from)
  for (let pairs = 0; x >= 0; x = text.indexOf('x"', x + 2)) {
    if (text.startsWith(beforeX, x - beforeX.length)) return x - beforeX.length
    if (++pairs === maxPairs) return text.indexOf(word, x)
  }
  return -1
}

/** The word in any spelling. */
const key = /"(?:t|\\u0074)(?:m|\\u006[dD])(?:a|\\u0061)(?:x|\\u0078)"/y
/** After the key. A number at the end of the text may be truncated. */
const number = /[\0- ]*:[\0- ]*((?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?=[^\d.eE+-])/y

/** The value of the only key `tmax` of the outermost object that begins at or before `last`. */
function topLevel(text: string, last: number): number | undefined {
  let value: number | undefined
  let times = 0
  let depth = 0
  /** Whether a string at this position is a key. A value is not, even if invalid JSON has a colon after it. */
  let opens = false
  for (let at = 0; at <= last && at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      key.lastIndex = at
      const isTmax = opens && depth === 1 && key.test(text)
      opens = false
      at = stringEnd(text, at) - 1
      if (at < 0) break
      if (!isTmax) continue
      times++
      number.lastIndex = at + 1
      value = Number(number.exec(text)?.[1])
    } else if (code === 123 || code === 91) {
      depth++
      opens = code === 123
    } else if (code === 125 || code === 93) depth--
    else if (code === 44) opens = true
    else if (code > 32) opens = false
  }
  const isTmax = times === 1 && Number.isSafeInteger(value) && value! > 0
  return isTmax ? value : undefined
}

const QUOTE = 34

/** The position after the string that begins at `at`; -1: the string has no end. */
function stringEnd(text: string, at: number): number {
  let quote = text.indexOf('"', at + 1)
  while (quote > 0) {
    let slashes = quote
    while (text.charCodeAt(slashes - 1) === 92) slashes--
    if (((quote - slashes) & 1) === 0) return quote + 1
    quote = text.indexOf('"', quote + 1)
  }
  return -1
}
