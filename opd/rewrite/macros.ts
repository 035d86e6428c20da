/**
 * Expands the SVC_OPD macros in JSON strings. A macro is found in the decoded string: `\u0024{SVC_OPD_CONTEXT}` is the
 * macro; `%24{…}`, or an escape in JSON within a string, is not. Values are ASCII and need no escape.
 */
import { literalNumber } from '../json/document-index.ts'
import type { Scanner } from '../json/scanner.ts'
import type { PricedBid } from '../pricing/types.ts'
import type { Splices } from './splice.ts'

const prefix = '${SVC_OPD_'

interface Macro {
  /** Its name after the prefix, with the brace. */
  name: string
  value(bid: PricedBid): string
}

/** To add a macro, add a row. */
const context = 'CONTEXT}'
const macros: readonly Macro[] = [
  { name: context, value: (bid) => bid.context },
  { name: 'IN_BID_PRICE}', value: (bid) => bid.inText },
  { name: 'OUT_BID_PRICE}', value: (bid) => bid.outText },
  { name: 'MODE}', value: (bid) => bid.mode },
]

/** SERVICE 4.8 rule 1: a bid without it before the context macro is not processed. */
const parameter = 'svc_opd='
const pattern = parameter + prefix + context
/** A string in the body: its bytes, quotes included. `end` is exclusive. */
export interface MacroSpan {
  start: number
  end: number
  /** Index of the first macro of the body that is not before the string. */
  first: number
}

/** The macros by their numbers as literals. */
const macroOf: (Macro | null)[] = [null]
for (const macro of macros) macroOf[literalNumber(prefix + macro.name)] = macro
const contextNumber = macroOf.findIndex((macro) => macro?.name === context)

/** The macros of a body, found in one pass. */
export class Macros {
  private readonly text: string
  /** Offset of each macro, and after the last one the length of the body. */
  private readonly offsets: number[] = []
  private readonly numbers: number[] = []
  /** Whether any string may contain an escaped macro. */
  private readonly escapes: boolean
  /** The first macro that is not before the last span. */
  private next = 0

  constructor(scan: Scanner) {
    this.text = scan.text
    this.escapes = scan.asciiEscapes
    scan.literals(this.offsets, this.numbers)
    this.offsets.push(this.text.length)
  }

  /** A string of the body. Call it with the strings in their order in the body. */
  span(start: number, end: number): MacroSpan {
    const { offsets } = this
    while (offsets[this.next]! < start) this.next++
    return { start, end, first: this.next }
  }

  /** Whether the string contains the pattern. */
  haveContext({ start, end, first }: MacroSpan): boolean {
    const { text, offsets, numbers } = this
    for (let n = first; offsets[n]! < end; n++) {
      const at = offsets[n]! - parameter.length
      if (numbers[n] === contextNumber && at > start && text.startsWith(parameter, at)) return true
    }
    return (
      this.hasEscape(start, end) && new Unescaped(text, start + 1, end - 1).text.includes(pattern)
    )
  }

  private hasEscape(start: number, end: number): boolean {
    return this.escapes && this.text.slice(start, end).includes(asciiEscape)
  }

  /** Adds a splice for each macro of the string. Expanded values are not expanded again. */
  expand(span: MacroSpan | null, bid: PricedBid, splices: Splices): void {
    if (span === null) return
    const { start, end, first } = span
    const { offsets, numbers } = this
    if (this.hasEscape(start, end)) return this.expandEscaped(span, bid, splices)
    for (let n = first; offsets[n]! < end; n++) {
      const at = offsets[n]!
      const macro = macroOf[numbers[n]!]!
      splices.add(at, at + prefix.length + macro.name.length, macro.value(bid))
    }
  }

  private expandEscaped({ start, end }: MacroSpan, bid: PricedBid, splices: Splices): void {
    const unescaped = new Unescaped(this.text, start + 1, end - 1)
    const { text } = unescaped
    for (let at = text.indexOf(prefix); at >= 0; at = text.indexOf(prefix, at)) {
      const name = at + prefix.length
      const macro = macroAt(text, name)
      const origin = unescaped.origin(at)
      at = name
      if (macro === undefined) continue
      at += macro.name.length
      splices.add(origin, unescaped.origin(at), macro.value(bid))
    }
  }
}

/** The macro whose name begins at `at`. */
const macroAt = (text: string, at: number): Macro | undefined =>
  macros.find(({ name }) => text.startsWith(name, at))

const BACKSLASH = 92
/** Prefix of every escape of an ASCII character. */
const asciiEscape = '\\u00'
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
