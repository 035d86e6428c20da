/**
 * First lines of requests that arrived lately, of all connections: callers repeat them, and each is read, and its supplier found,
 * once. A caller that sends for thousands of suppliers has another line with each request.
 */
import { type RequestLine, readRequestLine } from './request-head.ts'

/** Bytes of a line that is kept, or read apart from the fields. */
export const longestLine = 512

/** Lines that are kept, at most: a power of two. */
const places = 8192
const hashStart = 'POST /bid/'.length
const hashPrime = 0x9e3779b1
const carriageReturn = 13

interface Target {
  /** No further request is for it. */
  readonly removed: boolean
}

interface KeptLine<T> extends RequestLine {
  /** The supplier; null: it was not found yet. */
  target: T | null
}

export class RequestLines<T extends Target> {
  /** A line is at the place of its hash, or at that place's neighbour, if a later line has the first. */
  private readonly kept: (KeptLine<T> | null)[] = new Array(places).fill(null)
  private readonly find: (id: string) => T | null

  /** @param find the supplier with this identifier now */
  constructor(find: (id: string) => T | null) {
    this.find = find
  }

  /**
   * The supplier that a request with this line is for; null: there is none.
   *
   * @param line as `read` returned it
   */
  targetOf(line: KeptLine<T>): T | null {
    if (line.target === null || line.target.removed) line.target = this.find(line.supplier)
    return line.target
  }

  /**
   * The line that a request begins with. Null: it is long, incomplete, or not that of a bid request.
   *
   * @param bytes what was read, at the beginning of the request
   * @param text the same in latin1, at least `longestLine` characters if there are so many
   */
  read(bytes: Buffer, text: string): KeptLine<T> | null {
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

  private keptAt(place: number, text: string, length: number): KeptLine<T> | null {
    const line = this.kept[place]!
    if (line === null || line.text.length !== length) return null
    // Twice as fast as startsWith.
    return text.slice(0, length) === line.text ? line : null
  }

  private keep(place: number, bytes: Buffer, length: number): KeptLine<T> | null {
    // A text of its own: a slice would keep the whole request in memory.
    const found = readRequestLine(bytes.toString('latin1', 0, length))
    if (found === null) return null
    const line = { ...found, target: null }
    const { kept } = this
    if (kept[place] !== null) kept[place ^ 1] = kept[place]!
    kept[place] = line
    return line
  }
}
