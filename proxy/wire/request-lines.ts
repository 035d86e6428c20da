/**
 * First lines of requests that arrived lately, of all connections: callers repeat them, and each is read, and its supplier found,
 * once. A caller that sends for thousands of suppliers has another line with each request.
 */
import { readRequestLine } from './request-head.ts'

/** Bytes of a line that is kept, or read apart from the fields. */
export const longestLine = 512

/** Lines that are kept, at most, and those of one group: powers of two. */
const places = 16_384
const groupSize = 4
const hashStart = 'POST /bid/'.length
const hashPrime = 0x9e3779b1
const carriageReturn = 13

/** Instead of a place: the line is not kept. */
export const notKept = -1

interface Target {
  /** No further request is for it. */
  readonly removed: boolean
}

/** What is kept of a line, side by side. */
const nth = { text: 0, query: 1, target: 2 } as const
const perLine = 3

/**
 * A line has a number, its place, in the group that its hash selects. Of thousands of lines none is in the caches of the processor: what
 * is kept of one lies side by side, so that it is read at once, not one through another.
 */
export class RequestLines<T extends Target> {
  private readonly hashes = new Int32Array(places)
  /** Of each place the text with its line end, null if no line has it; the query; the target, null if it is not found yet. */
  private readonly kept: (string | T | null)[] = new Array(places * perLine).fill(null)
  private readonly find: (id: string) => T | null

  /** @param find the supplier with this identifier now */
  constructor(find: (id: string) => T | null) {
    this.find = find
  }

  /**
   * The supplier that a request with this line is for; null: there is none.
   *
   * @param place as `read` returned it
   */
  targetOf(place: number): T | null {
    const target = this.kept[place * perLine + nth.target] as T | null
    if (target !== null && !target.removed) return target
    const { supplier } = readRequestLine(this.textOf(place))!
    const found = this.find(supplier)
    this.kept[place * perLine + nth.target] = found
    return found
  }

  /**
   * Characters of the line, its end included.
   *
   * @param place as `read` returned it
   */
  lengthOf(place: number): number {
    return this.textOf(place).length
  }

  /**
   * `?…`, or empty.
   *
   * @param place as `read` returned it
   */
  queryOf(place: number): string {
    return this.kept[place * perLine + nth.query] as string
  }

  private textOf(place: number): string {
    return this.kept[place * perLine + nth.text] as string
  }

  /**
   * The place of the line that a request begins with. `notKept`: it is long, incomplete, or not that of a bid request.
   *
   * @param bytes what was read, at the beginning of the request
   * @param text the same in latin1, at least `longestLine` characters if there are so many
   */
  read(bytes: Buffer, text: string): number {
    const limit = Math.min(text.length, longestLine)
    let hash = 0
    let end = hashStart
    for (; end < limit && bytes[end] !== carriageReturn; end++)
      hash = Math.imul(hash ^ bytes[end]!, hashPrime)
    const length = end + 2
    // The memory of reads has older bytes behind those of this one.
    if (length > text.length || length > longestLine) return notKept
    const first = (hash >>> 7) & (places - groupSize)
    for (let place = first; place < first + groupSize; place++)
      // Twice as fast as startsWith.
      if (this.hashes[place] === hash && this.textOf(place) === text.slice(0, length)) return place
    return this.keep(first, hash, bytes, length)
  }

  /** The line has the first place of its group. The others move on, and the last one is forgotten. */
  private keep(first: number, hash: number, bytes: Buffer, length: number): number {
    // A text of its own: a slice would keep the whole request in memory.
    const line = readRequestLine(bytes.toString('latin1', 0, length))
    if (line === null) return notKept
    for (let place = first + groupSize - 1; place > first; place--) this.move(place - 1, place)
    this.hashes[first] = hash
    const { kept } = this
    kept[first * perLine + nth.text] = line.text
    kept[first * perLine + nth.query] = line.query
    kept[first * perLine + nth.target] = null
    return first
  }

  private move(from: number, to: number): void {
    this.hashes[to] = this.hashes[from]!
    const { kept } = this
    // Eight times as fast as `copyWithin`.
    for (let index = 0; index < perLine; index++)
      kept[to * perLine + index] = kept[from * perLine + index]!
  }
}
