/**
 * Expands the SVC_OPD macros in JSON strings. A macro is found in the decoded string: `\u0024{SVC_OPD_CONTEXT}` is the
 * macro; `%24{…}`, or an escape in JSON within a string, is not. Values are ASCII and need no escape.
 */
import { literalNumber } from '../json/document-index.ts'
import type { Scanner } from '../json/scanner.ts'
import type { MacroFinder, MacroSpan } from '../openrtb/response.ts'
import type { PricedBid } from '../shared/reasons.ts'
import type { Splices } from './splice.ts'

export const macroPrefix = '${SVC_OPD_'

export interface Macro {
  /** Its name after the prefix, with the brace. */
  name: string
  value(bid: PricedBid): string
}

const context = 'CONTEXT}'
/** To add a macro, add a row. */
export const macros: readonly Macro[] = [
  { name: context, value: (bid) => bid.context },
  { name: 'IN_BID_PRICE}', value: (bid) => bid.inText },
  { name: 'OUT_BID_PRICE}', value: (bid) => bid.outText },
  { name: 'MODE}', value: (bid) => bid.mode },
]

/** SERVICE 4.8 rule 1: a bid is processed only if this precedes a context macro. */
const parameter = 'svc_opd='

/** The macros by their numbers as literals. */
const macroOf: (Macro | null)[] = [null]
for (const macro of macros) macroOf[literalNumber(macroPrefix + macro.name)] = macro
const contextNumber = macroOf.findIndex((macro) => macro?.name === context)

/** Prefix of every escape of an ASCII character. */
const asciiEscape = '\\u00'

/** A pattern for a text of which each character may be an escape. `\\u0024` is a backslash followed by letters. */
const spelled = (text: string) =>
  Array.from(text, (character) => {
    const hex = character.charCodeAt(0).toString(16)
    const anyCase = hex.replace(/[a-f]/, (digit) => `[${digit}${digit.toUpperCase()}]`)
    const escaped = `\\\\u00${anyCase}`
    return `(?:[${character}]|${escaped}(?<=(?<!\\\\)(?:\\\\\\\\)*${escaped}))`
  }).join('')

const spelledContext = new RegExp(spelled(parameter + macroPrefix + context), 'g')
const spelledNames = macros.map(({ name }) => `(${spelled(name)})`).join('|')
const spelledMacro = new RegExp(`${spelled(macroPrefix)}(?:${spelledNames})`, 'g')

/** Characters of a string with escapes that are searched at once: about 0.3 ms. */
const searchLength = 64 * 1024
/** Characters of the longest pattern, all of them escaped. */
const longestSpelled = 6 * `${parameter}${macroPrefix}OUT_BID_PRICE}`.length

interface Found {
  /** null: there is no match before `next`. */
  match: RegExpExecArray | null
  /** The position of the match, and the position from which the next one is searched. */
  start: number
  next: number
}

/** Searches at most `searchLength` characters of a string for one of the patterns above. `from` is not within an escape. */
function search(pattern: RegExp, text: string, from: number, end: number): Found {
  const to = Math.min(end, from + searchLength)
  pattern.lastIndex = 0
  const match = pattern.exec(text.slice(from, Math.min(end, to + longestSpelled)))
  if (match !== null && from + match.index < to) {
    const parameterAt = from + match.index
    return { match, start: parameterAt, next: parameterAt + match[0].length }
  }
  const isEscaped = slashesBefore(text, from, to) % 2 === 1
  return { match: null, start: to, next: Math.min(end, isEscaped ? to + 1 : to) }
}

/** Backslashes that end at `to`, from `from` on. As bytes: `charCodeAt` of a long string takes half a microsecond. */
function slashesBefore(text: string, from: number, to: number): number {
  if (!text.endsWith('\\', to)) return 0
  const bytes = Buffer.from(text.slice(from, to), 'latin1')
  let start = bytes.length
  while (start > 0 && bytes[start - 1] === 92) start--
  return bytes.length - start
}

/** The macros of a body, found in one pass. */
export class Macros implements MacroFinder {
  private readonly text: string
  /** Offset of each macro, and after the last one the length of the body. */
  private readonly offsets: number[]
  private readonly numbers: readonly number[]
  /** Whether any string may contain an escaped macro. */
  private readonly escapes: boolean
  /** Index of the first macro at or after the start of the last span. */
  private next = 0

  constructor(scan: Scanner) {
    this.text = scan.text
    this.escapes = scan.asciiEscapes
    const { positions, numbers } = scan.literals()
    positions.push(this.text.length)
    this.offsets = positions
    this.numbers = numbers
  }

  span(start: number, end: number): MacroSpan {
    const { offsets } = this
    while (offsets[this.next]! < start) this.next++
    return { start, end, first: this.next }
  }

  hasContext({ start, end, first }: MacroSpan): boolean | null {
    const { text, offsets, numbers } = this
    for (let n = first; offsets[n]! < end; n++) {
      const from = offsets[n]! - parameter.length
      if (numbers[n] === contextNumber && from > start && text.startsWith(parameter, from))
        return true
    }
    if (!this.hasEscape(start, end)) return false
    if (end - start > searchLength) return null
    return search(spelledContext, text, start + 1, end - 1).match !== null
  }

  /** Searches a part of the string from a position on. Returns true, false, or the position of the next part. */
  searchContext({ end }: MacroSpan, from: number): boolean | number {
    const { match, next } = search(spelledContext, this.text, from, end - 1)
    if (match !== null) return true
    return next < end - 1 ? next : false
  }

  /** A long string may contain one: to find out takes as long as to search it. */
  private hasEscape(start: number, end: number): boolean {
    if (!this.escapes || end - start > searchLength) return this.escapes
    return this.text.slice(start, end).includes(asciiEscape)
  }

  /**
   * Adds splices for the macros of the string, from its `from`th on, at most `most` of them. Returns the number of the next
   * one; -1: there is none. Expanded values are not expanded again.
   */
  expand(span: MacroSpan, bid: PricedBid, splices: Splices, from: number, most: number): number {
    const { start, end, first } = span
    const { offsets, numbers } = this
    if (this.hasEscape(start, end)) return this.expandEscaped(span, bid, splices, from, most)
    const last = first + from + most
    for (let n = first + from; offsets[n]! < end; n++) {
      if (n === last) return n - first
      const offset = offsets[n]!
      const macro = macroOf[numbers[n]!]!
      splices.addReplacement(
        offset,
        offset + macroPrefix.length + macro.name.length,
        macro.value(bid),
      )
    }
    return -1
  }

  /** The same, but `from` is an offset in the string. */
  private expandEscaped(
    { start, end }: MacroSpan,
    bid: PricedBid,
    splices: Splices,
    from: number,
    most: number,
  ): number {
    const last = end - 1
    let position = start + 1 + from
    for (let count = 0; count < most && position < last; count++) {
      const { match, start, next } = search(spelledMacro, this.text, position, last)
      position = next
      if (match === null) break
      const [matched, ...names] = match
      const macro = macros[names.findIndex((name) => name !== undefined)]!
      splices.addReplacement(start, start + matched.length, macro.value(bid))
    }
    return position < last ? position - start - 1 : -1
  }
}
