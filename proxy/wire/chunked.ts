/**
 * Reads a chunked body (RFC 9112 7.1) strictly: sizes of at most 16 digits, lines that end with CR LF. Extensions and trailers are
 * dropped. A length as a trailer (RFC 9110 6.5.1) is malformed, as it is for undici.
 */

export interface BodySink {
  /**
   * Called once a read at most, with all data of its chunks.
   *
   * @param bytes valid only during the call
   * @param from position of the first byte of the data
   * @param to position after its last byte
   */
  bodyBytes(bytes: Buffer, from: number, to: number): void
}

const LF = 10
const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
const quoted = '"(?:[\\t !#-[\\]-~\\x80-\\xff]|\\\\[\\t -~\\x80-\\xff])*"'
const extension = `[\\t ]*;[\\t ]*${token}(?:[\\t ]*=[\\t ]*(?:${token}|${quoted}))?`
const sizeLine = new RegExp(`^0*([0-9a-fA-F]{1,16})(?:${extension})*\r\n$`)
const trailerLine = new RegExp(`^(?!content-length:)${token}:[\\t -~\\x80-\\xff]*\r\n$`, 'i')
/** Characters of a size line with its extensions, and of all trailers together. */
const maxLine = 4096
const maxTrailers = 64 * 1024

/** Bytes of one chunk. */
const longestChunk = 2 ** 32 - 1

export class ChunkedReader {
  done = false
  /** The size of a chunk exceeds the limit. It is known before the data of the chunk arrive, which are read on. */
  tooLarge = false
  private readonly limit: number
  private state: 'size' | 'data' | 'data-end' | 'trailer' = 'size'
  private line = ''
  /** Bytes of the chunk that have not arrived. */
  private missing = 0
  private trailers = 0

  /** @param limit bytes of one chunk */
  constructor(limit = longestChunk) {
    this.limit = limit
  }

  /**
   * Reads on, and sets `done` at the end of the body. Returns the position after what was read, or -1: the body is malformed.
   * Chunks are joined within `bytes`: a Buffer object for each chunk of one byte would take a hundred times its size.
   *
   * @param bytes what arrived; the part that is read is overwritten
   * @param start the position from which it belongs to the body
   * @param sink receives the data of all chunks at once, if there are any
   */
  read(bytes: Buffer, start: number, sink: BodySink): number {
    let position = start
    let from = start
    let to = start
    let valid = true
    while (valid && position < bytes.length && !this.done) {
      if (this.state === 'data') {
        const end = Math.min(bytes.length, position + this.missing)
        this.missing -= end - position
        if (this.missing === 0) this.state = 'data-end'
        if (to > from) bytes.copyWithin(to, position, end)
        else from = to = position
        to += end - position
        position = end
        continue
      }
      const end = bytes.indexOf(LF, position)
      const next = end < 0 ? bytes.length : end + 1
      const longest = this.state === 'trailer' ? maxTrailers : maxLine
      valid = this.line.length + next - position <= longest
      if (valid) this.line += bytes.toString('latin1', position, next)
      position = next
      if (valid && end >= 0) valid = this.readLine()
    }
    if (to > from) sink.bodyBytes(bytes, from, to)
    return valid ? position : -1
  }

  private readLine(): boolean {
    const { line } = this
    this.line = ''
    if (this.state === 'data-end') {
      this.state = 'size'
      return line === '\r\n'
    }
    if (this.state === 'trailer') {
      this.trailers += line.length
      this.done = line === '\r\n'
      return this.done || (this.trailers <= maxTrailers && trailerLine.test(line))
    }
    const size = sizeLine.exec(line)
    if (size === null) return false
    this.missing = Number.parseInt(size[1]!, 16)
    if (this.missing > this.limit) this.tooLarge = true
    this.state = this.missing === 0 ? 'trailer' : 'data'
    return true
  }
}
