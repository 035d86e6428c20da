/**
 * A JSON string with its `\u00XX` undone, and all else as it stands: nothing else can spell a macro. Every other byte
 * stands for itself, so that a place in the text is found again by walking the body once more.
 */
const BACKSLASH = 92
const escapeBytes = 6

export class Unescaped {
  readonly text: string
  private readonly body: string
  /** How far `origin` has walked: a place in the text, and where it stands in the body. */
  private walked = 0
  private at: number

  /** The bytes of the body between two offsets, quotes not included. */
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
        bytes[length++] = spelled(bytes[at + 4]!, bytes[at + 5]!)
        at += escapeBytes
      } else {
        // `\\u0024` is a backslash and letters: the bytes of any other escape are crossed together.
        bytes[length++] = code
        bytes[length++] = bytes[at + 1]!
        at += 2
      }
    }
    this.text = bytes.toString('latin1', 0, length)
  }

  /** Where a character of `text`, or its end, stands in the body. Offsets are asked for in rising order. */
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

/** The byte that two hex digits spell; an escaped quote, backslash or control must not be taken for a bare one. */
function spelled(high: number, low: number): number {
  const code = digit(high) * 16 + digit(low)
  return code > 0x22 && code < 0x7f && code !== BACKSLASH ? code : 0
}
