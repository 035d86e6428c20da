/**
 * A chunked body as it comes (RFC 9112 7.1), strict: sizes below 4 GiB, CRLF where it belongs.
 * Extensions and trailer fields are read and dropped.
 */
export interface Pieces {
  /** Bytes `from` up to `to` belong to the body; they are the reader's only during the call, one call a read. */
  piece(bytes: Buffer, from: number, to: number): void
}

const LF = 10
const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
const quoted = '"(?:[\\t !#-[\\]-~\\x80-\\xff]|\\\\[\\t -~\\x80-\\xff])*"'
const extension = `[\\t ]*;[\\t ]*${token}(?:[\\t ]*=[\\t ]*(?:${token}|${quoted}))?`
const sizeLine = new RegExp(`^0*([0-9a-fA-F]{1,8})(?:${extension})*\r\n$`)
const trailerLine = new RegExp(`^${token}:[\\t -~\\x80-\\xff]*\r\n$`)
/** Of one size line with its extensions, and of all trailers together. */
const longestLine = 4096
const longestTrailers = 64 * 1024

export class ChunkedReader {
  done = false
  private where: 'size' | 'data' | 'data-end' | 'trailer' = 'size'
  private line = ''
  private left = 0
  private trailers = 0

  /**
   * Reads on from `at`; where the body ends, `done` is set. Answers the position behind it, or -1: malformed.
   * Chunks are moved together in `bytes`: one a byte, each a buffer of its own, would take a hundred times its size.
   */
  read(bytes: Buffer, at: number, pieces: Pieces): number {
    let position = at
    let from = at
    let to = at
    let good = true
    while (good && position < bytes.length && !this.done) {
      if (this.where === 'data') {
        const end = Math.min(bytes.length, position + this.left)
        this.left -= end - position
        if (this.left === 0) this.where = 'data-end'
        if (to > from) bytes.copyWithin(to, position, end)
        else from = to = position
        to += end - position
        position = end
        continue
      }
      const end = bytes.indexOf(LF, position)
      const next = end < 0 ? bytes.length : end + 1
      good = this.line.length + next - position <= longestLine
      if (good) this.line += bytes.toString('latin1', position, next)
      position = next
      if (good && end >= 0) good = this.lineRead()
    }
    if (to > from) pieces.piece(bytes, from, to)
    return good ? position : -1
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
