/**
 * Expands the SVC_OPD macros in JSON strings. A macro is found in the decoded string: `\u0024{SVC_OPD_CONTEXT}` is the
 * macro; `%24{…}`, or an escape in JSON within a string, is not. Values are ASCII and need no escape.
 */
import { BACKSLASH, indexOrEnd } from '../json/syntax.ts'
import type { PricedBid } from '../pricing/types.ts'
import type { Splices } from './splice.ts'

const prefix = '${SVC_OPD_'

/** The value of each macro. To add a macro, add a row. */
const macros: readonly [string, (bid: PricedBid) => string][] = [
  ['CONTEXT}', (bid) => bid.context],
  ['IN_BID_PRICE}', (bid) => bid.inText],
  ['OUT_BID_PRICE}', (bid) => bid.outText],
  ['MODE}', (bid) => bid.mode],
]

/** SERVICE 4.8 rule 1: a bid without it is not processed. */
const pattern = 'svc_opd=${SVC_OPD_CONTEXT}'
/** Prefix of every escape of an ASCII character. */
const asciiEscape = '\\u00'

/**
 * Tells whether a string contains the pattern. Call it with strings in their order in the body: the next position of the
 * pattern is kept, so that the body is searched once, whatever the number of strings.
 */
export class PatternFinder {
  private readonly text: string
  /** Next position of the pattern, and of an escape. */
  private plain = -1
  private escape = -1
  /** Whether any string may contain an escaped macro. `u00` is rarer than a backslash, so it is searched first. */
  readonly escapes: boolean

  /** `text` is the body as latin1. */
  constructor(text: string) {
    this.text = text
    this.escapes = text.includes('u00') && text.includes(asciiEscape)
  }

  /** `start` and `end` are offsets in the body, quotes excluded. */
  contains(start: number, end: number): boolean {
    const { text } = this
    if (this.plain < start) this.plain = indexOrEnd(text, pattern, start)
    if (this.plain + pattern.length <= end) return true
    if (!this.escapes) return false
    if (this.escape < start) this.escape = indexOrEnd(text, asciiEscape, start)
    return this.escape < end && new Unescaped(text, start, end).text.includes(pattern)
  }
}

/** The macro whose name is at an offset of a text. */
function macroAt(text: string, name: number): (typeof macros)[number] | null {
  const letter = text.charCodeAt(name)
  for (let n = 0; n < macros.length; n++) {
    const macro = macros[n]!
    if (macro[0].charCodeAt(0) === letter && text.startsWith(macro[0], name)) return macro
  }
  return null
}

/**
 * Expands the macros in strings of one body. Call it with strings in their order in the body: the position of the next
 * macro is kept, so that the body is searched once. Expanded values are not expanded again.
 */
export class MacroExpander {
  private readonly body: string
  private readonly escapes: boolean
  private readonly splices: Splices
  private next = -1

  /** `escapes`: whether any string may contain an escaped macro. */
  constructor(body: string, escapes: boolean, splices: Splices) {
    this.body = body
    this.escapes = escapes
    this.splices = splices
  }

  /** Adds a splice for each macro between `start` and `end`, quotes excluded. */
  expand(start: number, end: number, bid: PricedBid): void {
    const { body } = this
    if (this.escapes && body.slice(start, end).includes(asciiEscape))
      return this.expandEscaped(start, end, bid)
    let { next } = this
    if (next < start) next = indexOrEnd(body, prefix, start)
    while (next < end) {
      const name = next + prefix.length
      const macro = macroAt(body, name)
      let after = name
      if (macro !== null) {
        after += macro[0].length
        this.splices.add(next, after, macro[1](bid))
      }
      next = indexOrEnd(body, prefix, after)
    }
    this.next = next
  }

  private expandEscaped(start: number, end: number, bid: PricedBid): void {
    const unescaped = new Unescaped(this.body, start, end)
    const { text } = unescaped
    for (let at = text.indexOf(prefix); at >= 0; at = text.indexOf(prefix, at)) {
      const first = at
      at += prefix.length
      const macro = macroAt(text, at)
      if (macro === null) continue
      at += macro[0].length
      const from = unescaped.origin(first)
      this.splices.add(from, unescaped.origin(at), macro[1](bid))
    }
  }
}

const escapeBytes = 6

/**
 * A JSON string with its `\u00XX` escapes decoded. No other escape can be part of a macro, so all other bytes stay as they
 * are. `origin` maps an offset in the text back to the body.
 */
class Unescaped {
  readonly text: string
  private readonly body: string
  /** Progress of `origin`: an offset in the text, and the same offset in the body. */
  private walked = 0
  private at: number

  /** `start` and `end` are offsets in the body, quotes excluded. */
  constructor(body: string, start: number, end: number) {
    this.body = body
    this.at = start
    const bytes = Buffer.from(body.slice(start, end), 'latin1')
    let length = 0
    for (let at = 0; at < bytes.length; ) {
      const code = bytes[at]!
      if (code !== BACKSLASH) {
        bytes[length++] = code
        at++
      } else if (isAsciiEscape(bytes, at)) {
        bytes[length++] = byteOf(bytes[at + 4]!, bytes[at + 5]!)
        at += escapeBytes
      } else {
        // `\\u0024` is a backslash followed by letters. The two bytes of any other escape are copied together.
        bytes[length++] = code
        bytes[length++] = bytes[at + 1]!
        at += 2
      }
    }
    this.text = bytes.toString('latin1', 0, length)
  }

  /** Offset in the body of an offset in `text`. Call it with rising offsets. */
  origin(offset: number): number {
    const { body } = this
    let { at } = this
    for (; this.walked < offset; this.walked++) {
      if (body.charCodeAt(at) !== BACKSLASH) at++
      else if (body.startsWith('u00', at + 1)) at += escapeBytes
      else {
        at += 2
        this.walked++
      }
    }
    this.at = at
    return at
  }
}

const isAsciiEscape = (bytes: Uint8Array, at: number) =>
  bytes[at + 1] === 117 && bytes[at + 2] === 48 && bytes[at + 3] === 48

const digit = (code: number) => (code <= 57 ? code - 48 : (code | 32) - 87)

/** The byte of two hex digits; 0 for an escaped quote, backslash or control character, which are not literal ones. */
function byteOf(high: number, low: number): number {
  const code = digit(high) * 16 + digit(low)
  return code > 0x22 && code < 0x7f && code !== BACKSLASH ? code : 0
}
