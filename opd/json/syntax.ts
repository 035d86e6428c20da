/** Characters of JSON (RFC 8259) and the small checks on them. */

export const QUOTE = 34
export const BACKSLASH = 92
export const MINUS = 45
export const ZERO = 48
export const NINE = 57
export const BRACKET = 91
export const BRACE = 123
/** Prefix of every escape of an ASCII character. */
export const asciiEscape = '\\u00'

export function isHex4(text: string, at: number): boolean {
  for (let end = at + 4; at < end; at++) {
    const code = text.charCodeAt(at)
    const letter = code | 32
    if (!((code >= ZERO && code <= NINE) || (letter >= 97 && letter <= 102))) return false
  }
  return true
}

const escapes = new Uint8Array(128)
for (const letter of '"\\/bfnrt') escapes[letter.charCodeAt(0)] = 1

/** `" \ / b f n r t` */
export const isEscape = (code: number): boolean => code < 128 && escapes[code] === 1

/** Position of `what` at or after `from`; the length of the text if there is none. */
export function indexOrEnd(text: string, what: string, from: number): number {
  const at = text.indexOf(what, from)
  return at < 0 ? text.length : at
}

/** Result of a scan of bytes that are not JSON. */
export const malformed = -1

export function literal(text: string, at: number, word: string): number {
  return text.startsWith(word, at) ? at + word.length : malformed
}

/** The end of the number at `at`. */
export function number(text: string, at: number): number {
  if (text.charCodeAt(at) === MINUS) at++
  let code = text.charCodeAt(at)
  if (code === ZERO) code = text.charCodeAt(++at)
  else {
    if (!(code > ZERO && code <= NINE)) return malformed
    do code = text.charCodeAt(++at)
    while (code >= ZERO && code <= NINE)
  }
  if (code === 46) {
    at = digits(text, at + 1)
    if (at === malformed) return malformed
    code = text.charCodeAt(at)
  }
  if (code !== 101 && code !== 69) return at
  const sign = text.charCodeAt(at + 1)
  return digits(text, sign === 43 || sign === MINUS ? at + 2 : at + 1)
}

function digits(text: string, at: number): number {
  const start = at
  let code = text.charCodeAt(at)
  while (code >= ZERO && code <= NINE) code = text.charCodeAt(++at)
  return at === start ? malformed : at
}
