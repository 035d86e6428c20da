/** Finds `tmax` in a bid request before it is sent, for the deadline. */
import { type Body, integerMember, shortDocument } from '../json/scanner.ts'

/** Bytes of a request that are searched for `tmax`, before it is sent (0.5 ms at worst). */
export const tmaxSearchBytes = shortDocument

const tmaxCode = Buffer.from('tmax').readInt32LE()

/**
 * The top-level `tmax` in milliseconds. It is ignored if it is not a positive integer, is repeated, or is after the first
 * `tmaxSearchBytes` bytes.
 *
 * @param request bytes, or text with one character a byte
 * @returns milliseconds, at least 1; undefined: there is none that counts
 */
export function findTmax(request: Body): number | undefined {
  const start = startOf(request)
  const value = integerMember(start, tmaxCode)
  if (value === null)
    return spelledTmax(typeof start === 'string' ? start : start.toString('latin1'))
  return value > 0 ? value : undefined
}

function startOf(request: Body): Body {
  if (request.length <= tmaxSearchBytes) return request
  return typeof request === 'string'
    ? request.slice(0, tmaxSearchBytes)
    : request.subarray(0, tmaxSearchBytes)
}

/** `tmax` in any spelling. */
const key = /"(?:t|\\u0074)(?:m|\\u006[dD])(?:a|\\u0061)(?:x|\\u0078)"/y
/** After the key. A number at the end of the text may be truncated. */
const number = /[\0- ]*:[\0- ]*((?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?=[^\d.eE+-])/y

/** The value of the only key `tmax` of the outermost object, in any spelling of key and number. */
function spelledTmax(text: string): number | undefined {
  let value: number | undefined
  let times = 0
  let depth = 0
  /** Whether a string at this position is a key. A value is not, even if invalid JSON has a colon after it. */
  let opens = false
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === QUOTE) {
      key.lastIndex = index
      const isTmax = opens && depth === 1 && key.test(text)
      opens = false
      index = stringEnd(text, index) - 1
      if (index < 0) break
      if (!isTmax) continue
      times++
      number.lastIndex = index + 1
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
function stringEnd(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1)
  while (quote > 0) {
    let slashes = quote
    while (text.charCodeAt(slashes - 1) === 92) slashes--
    if (((quote - slashes) & 1) === 0) return quote + 1
    quote = text.indexOf('"', quote + 1)
  }
  return -1
}
