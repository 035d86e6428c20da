/**
 * The SVC_OPD macros in a JSON string, found as the string decodes: `\u0024{SVC_OPD_CONTEXT}` is the macro,
 * `%24{…}` and an escape inside JSON inside a string are not. Values are ASCII and need no escape of their own.
 */
import { nextOf } from '../json/syntax.ts'
import type { PricedBid } from '../pricing/types.ts'
import type { Splice } from './splice.ts'
import { Unescaped } from './unescaped.ts'

const prefix = '${SVC_OPD_'

/** What each macro becomes. A new row is the whole change. */
const macros: readonly [string, (bid: PricedBid) => string][] = [
  ['CONTEXT}', (bid) => bid.context],
  ['IN_BID_PRICE}', (bid) => bid.inText],
  ['OUT_BID_PRICE}', (bid) => bid.outText],
  ['MODE}', (bid) => bid.mode],
]

/** SERVICE 4.8 rule 1: without it a bid is not processed. */
const pattern = 'svc_opd=${SVC_OPD_CONTEXT}'
/** Begins every escape that can spell a letter of a macro. */
const asciiEscape = '\\u00'

/**
 * Says of strings in the order in which they stand whether they hold the pattern. Where it stands next is kept, so
 * that a body is read once however many strings it has.
 */
export class PatternFinder {
  private readonly text: string
  private plain = -1
  private escape = -1
  /** Whether any string may spell a macro by escapes. `u00` is rarer than a backslash, so looked for first. */
  readonly escapes: boolean

  /** The body as latin1. */
  constructor(text: string) {
    this.text = text
    this.escapes = text.includes('u00') && text.includes(asciiEscape)
  }

  /** Between two offsets, quotes not included. */
  holds(start: number, end: number): boolean {
    const { text } = this
    if (this.plain < start) this.plain = nextOf(text, pattern, start)
    if (this.plain + pattern.length <= end) return true
    if (!this.escapes) return false
    if (this.escape < start) this.escape = nextOf(text, asciiEscape, start)
    return this.escape < end && new Unescaped(text, start, end).text.includes(pattern)
  }
}

/** Adds a splice for each macro between `start` and `end`; one pass, what was expanded is not looked at again. */
export function expand(
  body: string,
  start: number,
  end: number,
  escapes: boolean,
  bid: PricedBid,
  splices: Splice[],
): void {
  const raw = body.slice(start, end)
  const unescaped = escapes && raw.includes(asciiEscape) ? new Unescaped(body, start, end) : null
  const text = unescaped?.text ?? raw
  for (let at = text.indexOf(prefix); at >= 0; at = text.indexOf(prefix, at)) {
    const name = at + prefix.length
    const macro = macros.find(([rest]) => text.startsWith(rest, name))
    if (macro === undefined) {
      at = name
      continue
    }
    const [rest, value] = macro
    const first = unescaped?.origin(at) ?? start + at
    at = name + rest.length
    const last = unescaped?.origin(at) ?? start + at
    splices.push({ start: first, end: last, text: value(bid) })
  }
}
