/**
 * Header fields of a strict HTTP/1.1 head (RFC 9112 5), for the fast lane on both sides. Anything else than a well-formed
 * field line is rejected; node:http's parser, in the general lane, is more lenient.
 */
const HTAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const COLON = 58

/** RFC 9110 5.6.2: token characters. */
const token = new Uint8Array(256)
for (const char of "!#$%&'*+-.^_`|~0123456789") token[char.charCodeAt(0)] = 1
for (let code = 65; code <= 90; code++) {
  token[code] = 1
  token[code + 32] = 1
}
/** RFC 9110 5.5: characters of a field value: HTAB, SP, visible ASCII, obs-text. */
const content = new Uint8Array(256).fill(1, SPACE, 127).fill(1, 128)
content[HTAB] = 1

/**
 * Reads `name: value CRLF` lines from `from` to the end of `text` (a head as latin1, without its blank line), and
 * appends names and values to `fields`. False: malformed (a fold, a bare CR or LF, a space before the colon, a control
 * character).
 */
export function readFields(text: string, from: number, fields: string[]): boolean {
  const { length } = text
  for (let at = from; at < length; at += 2) {
    const start = at
    while (token[text.charCodeAt(at)] === 1) at++
    if (at === start || text.charCodeAt(at) !== COLON) return false
    const name = text.slice(start, at)
    let code = text.charCodeAt(++at)
    while (code === SPACE || code === HTAB) code = text.charCodeAt(++at)
    const valueStart = at
    while (content[text.charCodeAt(at)] === 1) at++
    if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) return false
    let valueEnd = at
    while (valueEnd > valueStart && isBlank(text.charCodeAt(valueEnd - 1))) valueEnd--
    fields.push(name, text.slice(valueStart, valueEnd))
  }
  return true
}

function isBlank(code: number): boolean {
  return code === SPACE || code === HTAB
}

/** The first line and the fields of a head; its blank line is not included. */
export function headText(firstLine: string, fields: readonly string[]): string {
  let text = firstLine
  for (let at = 0; at < fields.length; at += 2) text += `${fields[at]!}: ${fields[at + 1]!}\r\n`
  return text
}

/** A response without a body that ends its connection; `line`: status and reason; `fields`: whole lines. */
export const closingResponse = (line: string, fields = '') =>
  `HTTP/1.1 ${line}\r\n${fields}Connection: close\r\nContent-Length: 0\r\n\r\n`

/** The value of a `Content-Length` (RFC 9110 8.6), if a number represents it exactly; otherwise null. */
export function lengthOf(value: string): number | null {
  return /^\d{1,15}$/.test(value) ? Number(value) : null
}

const hostValue = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::\d*)?$/

/** Whether a `Host` is empty or names one host (RFC 9110 7.2). Any other value is refused (RFC 9112 3.2). */
export const isHost = (value: string): boolean => hostValue.test(value)
