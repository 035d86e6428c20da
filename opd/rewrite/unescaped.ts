/**
 * A JSON string with its `\u00XX` undone, and all else as it stands: nothing else can spell a macro. In pieces:
 *
 *   body   a b c \u0024 { S …        text   a b c $ { S …
 *   froms  ^     ^      ^            begins ^     ^ ^
 */
export class Unescaped {
  readonly text: string
  private readonly begins: number[] = []
  private readonly froms: number[] = []
  private piece = 0

  /** The bytes of the body between two offsets, quotes not included. */
  constructor(body: string, start: number, end: number) {
    const raw = body.slice(start, end)
    const parts: string[] = []
    let length = 0
    let plain = 0
    const add = (part: string, from: number) => {
      this.begins.push(length)
      this.froms.push(start + from)
      parts.push(part)
      length += part.length
    }
    // `\\u0024` is a backslash and letters: the bytes of any other escape are crossed together.
    for (let at = raw.indexOf('\\'); at >= 0; ) {
      if (raw.startsWith('u00', at + 1)) {
        if (at > plain) add(raw.slice(plain, at), plain)
        add(spelled(raw, at), at)
        plain = at + 6
        at = raw.indexOf('\\', plain)
      } else at = raw.indexOf('\\', at + 2)
    }
    if (plain < raw.length) add(raw.slice(plain), plain)
    add('', raw.length)
    this.text = parts.join('')
  }

  /** Where a character of `text`, or its end, stands in the body. Offsets are asked for in rising order. */
  origin(offset: number): number {
    const { begins } = this
    while (this.piece + 1 < begins.length && begins[this.piece + 1]! <= offset) this.piece++
    return this.froms[this.piece]! + offset - begins[this.piece]!
  }
}

/** An escaped quote, backslash or control must not be taken for a bare one. */
function spelled(raw: string, at: number): string {
  const code = Number.parseInt(raw.slice(at + 4, at + 6), 16)
  return code > 0x22 && code < 0x7f && code !== 92 ? String.fromCharCode(code) : '\0'
}
