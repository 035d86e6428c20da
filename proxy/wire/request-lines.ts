/**
 * First lines of requests that arrived lately, of all connections: callers repeat them, and each is read once. A caller that sends
 * for thousands of suppliers has another line with each request.
 */
import { type RequestLine, readRequestLine } from './request-head.ts'

/** Bytes of a line that is kept, or read apart from the fields. */
export const longestLine = 512

/** Lines that are kept, at most: a power of two. */
const places = 8192
const hashStart = 'POST /bid/'.length
const hashPrime = 0x9e3779b1
const carriageReturn = 13

export class RequestLines {
  /** A line is at the place of its hash, or at that place's neighbour, if a later line has the first. */
  private readonly kept: (RequestLine | null)[] = new Array(places).fill(null)

  /**
   * The line that a request begins with. Null: it is long, incomplete, or not that of a bid request.
   *
   * @param bytes what was read, at the beginning of the request
   * @param text the same in latin1, at least `longestLine` characters if there are so many
   */
  read(bytes: Buffer, text: string): RequestLine | null {
    const limit = Math.min(text.length, longestLine)
    let hash = 0
    let end = hashStart
    for (; end < limit && bytes[end] !== carriageReturn; end++)
      hash = Math.imul(hash ^ bytes[end]!, hashPrime)
    const place = (hash >>> 7) & (places - 1)
    const length = end + 2
    // The memory of reads has older bytes behind those of this one.
    if (length > text.length || length > longestLine) return null
    return (
      this.keptAt(place, text, length) ??
      this.keptAt(place ^ 1, text, length) ??
      this.keep(place, bytes, length)
    )
  }

  private keptAt(place: number, text: string, length: number): RequestLine | null {
    const line = this.kept[place]!
    if (line === null || line.text.length !== length) return null
    // Twice as fast as startsWith.
    return text.slice(0, length) === line.text ? line : null
  }

  private keep(place: number, bytes: Buffer, length: number): RequestLine | null {
    // A text of its own: a slice would keep the whole request in memory.
    const line = readRequestLine(bytes.toString('latin1', 0, length))
    if (line === null) return null
    const { kept } = this
    if (kept[place] !== null) kept[place ^ 1] = kept[place]!
    kept[place] = line
    return line
  }
}
