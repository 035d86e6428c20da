/**
 * Writes short text as UTF-8 and returns its end. ASCII is written byte by byte: a call of `Buffer.write` takes as long as
 * 40 bytes. `into` needs three bytes for each character.
 */
export function writeUtf8(into: Buffer, at: number, text: string): number {
  const { length } = text
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index)
    if (code > 127) return at + index + into.write(text.slice(index), at + index, 'utf8')
    into[at + index] = code
  }
  return at + length
}

/** Writes the first `length` characters of latin1 text. */
export function writeLatin1(into: Buffer, at: number, text: string, length = text.length): void {
  for (let index = 0; index < length; index++) into[at + index] = text.charCodeAt(index)
}
