/**
 * Expands the SVC_OPD macros in JSON strings. A macro is found in the decoded string: `\u0024{SVC_OPD_CONTEXT}` is the
 * macro; `%24{…}`, or an escape in JSON within a string, is not. Values are ASCII and need no escape.
 */
import { literalNumber } from '../json/document-index.ts'
import type { Scanner } from '../json/scanner.ts'
import type { MacroFinder, MacroSpan } from '../openrtb/response.ts'
import type { PricedBid } from '../shared/reasons.ts'
import type { Splices } from './splice.ts'

const prefix = '${SVC_OPD_'

interface Macro {
  /** Its name after the prefix, with the brace. */
  name: string
  value(bid: PricedBid): string
}

const context = 'CONTEXT}'
/** To add a macro, add a row. */
const macros: readonly Macro[] = [
  { name: context, value: (bid) => bid.context },
  { name: 'IN_BID_PRICE}', value: (bid) => bid.inText },
  { name: 'OUT_BID_PRICE}', value: (bid) => bid.outText },
  { name: 'MODE}', value: (bid) => bid.mode },
]

/** SERVICE 4.8 rule 1: a bid is processed only if this precedes a context macro. */
const parameter = 'svc_opd='

/** The macros by their numbers as literals. */
const macroOf: (Macro | null)[] = [null]
for (const macro of macros) macroOf[literalNumber(prefix + macro.name)] = macro
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

const spelledContext = new RegExp(spelled(parameter + prefix + context))
const spelledNames = macros.map(({ name }) => `(${spelled(name)})`).join('|')
const spelledMacro = new RegExp(`${spelled(prefix)}(?:${spelledNames})`, 'g')

/** The macros of a body, found in one pass. */
export class Macros implements MacroFinder {
  private readonly text: string
  /** Offset of each macro, and after the last one the length of the body. */
  private readonly offsets: number[] = []
  private readonly numbers: number[] = []
  /** Whether any string may contain an escaped macro. */
  private readonly escapes: boolean
  /** Index of the first macro at or after the start of the last span. */
  private next = 0

  constructor(scan: Scanner) {
    this.text = scan.text
    this.escapes = scan.asciiEscapes
    scan.literals(this.offsets, this.numbers)
    this.offsets.push(this.text.length)
  }

  span(start: number, end: number): MacroSpan {
    const { offsets } = this
    while (offsets[this.next]! < start) this.next++
    return { start, end, first: this.next }
  }

  hasContext({ start, end, first }: MacroSpan): boolean {
    const { text, offsets, numbers } = this
    for (let n = first; offsets[n]! < end; n++) {
      const at = offsets[n]! - parameter.length
      if (numbers[n] === contextNumber && at > start && text.startsWith(parameter, at)) return true
    }
    return this.hasEscape(start, end) && spelledContext.test(text.slice(start + 1, end - 1))
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
    const from = start + 1
    for (const match of this.text.slice(from, end - 1).matchAll(spelledMacro)) {
      const [whole, ...names] = match
      const macro = macros[names.findIndex((name) => name !== undefined)]!
      const at = from + match.index
      splices.add(at, at + whole.length, macro.value(bid))
    }
  }
}
