/**
 * The SVC_OPD macros in a JSON string, found as the string decodes: `\u0024{SVC_OPD_CONTEXT}` is the macro,
 * `%24{…}` and an escape inside JSON inside a string are not. Values are ASCII and need no escape of their own.
 */
import type { PricedBid } from '../priced.ts'
import type { Splice } from './splice.ts'

const prefix = '${SVC_OPD_'

/** What each macro becomes. A new row is the whole change. */
const macros: readonly [string, (bid: PricedBid) => string][] = [
  ['${SVC_OPD_CONTEXT}', (bid) => bid.context],
  ['${SVC_OPD_IN_BID_PRICE}', (bid) => bid.inText],
  ['${SVC_OPD_OUT_BID_PRICE}', (bid) => bid.outText],
  ['${SVC_OPD_MODE}', (bid) => bid.mode],
]

/** SERVICE 4.8 rule 1: without it a bid is not processed. */
const pattern = 'svc_opd=${SVC_OPD_CONTEXT}'

/** A piece of the body's text as it decodes, and where each of its characters came from. */
interface Decoded {
  text: string
  /** Offset in the body of each character, and one more for the end; null: characters are bytes. */
  from: Uint32Array | null
}

/** Undoes `\uXXXX` of ASCII and leaves all else: nothing else can spell a macro. */
function decode(body: string, start: number, end: number, escapes: boolean): Decoded {
  const raw = body.slice(start, end)
  if (!escapes || !raw.includes('\\u00')) return { text: raw, from: null }
  const from = new Uint32Array(raw.length + 1)
  let text = ''
  let at = 0
  while (at < raw.length) {
    from[text.length] = start + at
    if (raw.charCodeAt(at) !== 92) text += raw[at++]
    else if (raw.startsWith('u00', at + 1)) {
      const code = Number.parseInt(raw.slice(at + 4, at + 6), 16)
      // An escaped quote or backslash must not be taken for a bare one.
      text += code > 0x22 && code < 0x7f && code !== 92 ? String.fromCharCode(code) : '\0'
      at += 6
    } else {
      // `\\u0024` is a backslash and letters: both bytes of an escape are crossed together.
      text += '\0'
      at += 2
    }
  }
  from[text.length] = end
  return { text, from }
}

/** Whether the string between `start` and `end` decodes to one that holds the pattern; `escapes`: the body has `\\u00`. */
export function holdsPattern(body: string, start: number, end: number, escapes: boolean): boolean {
  return decode(body, start, end, escapes).text.includes(pattern)
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
  const { text, from } = decode(body, start, end, escapes)
  for (let at = text.indexOf(prefix); at >= 0; at = text.indexOf(prefix, at)) {
    const macro = macros.find(([name]) => text.startsWith(name, at))
    if (macro === undefined) {
      at += prefix.length
      continue
    }
    const [name, value] = macro
    const first = from === null ? start + at : from[at]!
    const last = from === null ? first + name.length : from[at + name.length]!
    splices.push({ start: first, end: last, text: value(bid) })
    at += name.length
  }
}
