/**
 * A chunked body as it comes (RFC 9112 7.1), strict: sizes of at most 8 hex digits, CRLF where it belongs.
 * Extensions and trailer fields are read and dropped.
 */
export interface Pieces {
  /** Bytes `from` up to `to` belong to the body; they are the reader's only during the call. */
  piece(bytes: Buffer, from: number, to: number): void
}

const LF = 10
const sizeLine = /^([0-9a-fA-F]{1,8})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n$/
const trailerLine = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n$/
/** Of one size line with its extensions, and of all trailers together. */
const longestLine = 4096
const longestTrailers = 64 * 1024

export class ChunkedReader {
  done = false
  private where: 'size' | 'data' | 'data-end' | 'trailer' = 'size'
  private line = ''
  private left = 0
  private trailers = 0

  /** Reads on from `at`; where the body ends, `done` is set. Answers the position behind it, or -1: malformed. */
  read(bytes: Buffer, at: number, pieces: Pieces): number {
    let position = at
    while (position < bytes.length && !this.done) {
      if (this.where === 'data') {
        const to = Math.min(bytes.length, position + this.left)
        this.left -= to - position
        if (this.left === 0) this.where = 'data-end'
        pieces.piece(bytes, position, to)
        position = to
        continue
      }
      const end = bytes.indexOf(LF, position)
      const to = end < 0 ? bytes.length : end + 1
      if (this.line.length + to - position > longestLine) return -1
      this.line += bytes.toString('latin1', position, to)
      position = to
      if (end >= 0 && !this.lineRead()) return -1
    }
    return position
  }

  private lineRead(): boolean {
    const { line } = this
    this.line = ''
    if (this.where === 'data-end') {
      this.where = 'size'
      return line === '\r\n'
    }
    if (this.where === 'trailer') {
      this.trailers += line.length
      this.done = line === '\r\n'
      return this.done || (this.trailers <= longestTrailers && trailerLine.test(line))
    }
    const size = sizeLine.exec(line)
    if (size === null) return false
    this.left = Number.parseInt(size[1]!, 16)
    this.where = this.left === 0 ? 'trailer' : 'data'
    return true
  }
}
