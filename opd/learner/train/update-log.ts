/**
 * What a node taught its model, told as it was: exposures as they settled and wins as they came. Others teach themselves the
 * same, so that many nodes know what one would that saw all. Sums of what was learned would be smaller, but each node answers
 * the same surprise in full, and their sum answers it too often: that cost 2.5 points of margin with eight nodes and 5 s.
 *
 *   part  weight  age, ms  features
 *   1     1       4        51
 */
import { featureBytes, timeIn } from '../features.ts'

/** `lost`: an exposure settled; `undone`: one that teaches nothing after all; `paid` and `saved`: a win, at the price sent or below. */
const parts = ['lost', 'undone', 'won', 'paid', 'saved'] as const
export type TaughtPart = (typeof parts)[number]

const headBytes = 6
export const rowBytes = headBytes + featureBytes
/** Sent between two deltas. Of more, every second bid is left out with all its rows, then every second of the rest. */
export const toldMost = 8192

export interface Row {
  part: TaughtPart
  /** As often as this is an exposure taught. */
  weight: number
  /** Milliseconds between the bid and this. */
  age: number
  features: Uint8Array
}

/** Grows to half a megabyte, and stays. */
export class Telling {
  private bytes = new Uint8Array(64 * rowBytes)
  private count = 0
  /** A bid is sent if so many low bits of its hash are 0. */
  private level = 0

  add(part: TaughtPart, weight: number, age: number, features: Uint8Array): void {
    while (this.count === toldMost) this.thin()
    if (!this.sampled(features, 0)) return
    const at = this.count++ * rowBytes
    if (at === this.bytes.length) {
      const wider = new Uint8Array(Math.min(2 * this.bytes.length, toldMost * rowBytes))
      wider.set(this.bytes)
      this.bytes = wider
    }
    const { bytes } = this
    const time = age > 0 ? Math.min(0xffffffff, Math.floor(age)) : 0
    bytes[at] = parts.indexOf(part)
    bytes[at + 1] = weight
    bytes[at + 2] = time >>> 24
    bytes[at + 3] = time >>> 16
    bytes[at + 4] = time >>> 8
    bytes[at + 5] = time
    bytes.set(features, at + headBytes)
  }

  /** An exposure and its win have the same features, so both are sampled or none. */
  private sampled(bytes: Uint8Array, from: number): boolean {
    if (this.level === 0) return true
    let hash = 0x811c9dc5
    for (let at = from; at < from + featureBytes; at++)
      hash = Math.imul(hash ^ bytes[at]!, 0x01000193)
    return ((hash ^ (hash >>> 15)) & (2 ** this.level - 1)) === 0
  }

  private thin(): void {
    this.level++
    const { bytes, count } = this
    this.count = 0
    for (let at = 0; at < count * rowBytes; at += rowBytes)
      if (this.sampled(bytes, at + headBytes))
        bytes.copyWithin(this.count++ * rowBytes, at, at + rowBytes)
  }

  /** A view, until the next `add`. */
  take(): Uint8Array {
    const { count } = this
    this.count = 0
    this.level = 0
    return this.bytes.subarray(0, count * rowBytes)
  }
}

/** Rows of other nodes that wait to be taught here. Taken by time, then by their bytes: whose delta came first is no matter. */
export class Heard {
  private waiting: Uint8Array[] = []
  private sorted: Uint8Array[] = []
  private next = 0

  size = 0

  /** Whole rows. */
  add(rows: Uint8Array): void {
    if (rows.length === 0) return
    this.waiting.push(rows)
    this.size += rows.length / rowBytes
  }

  private sort(): void {
    const rows = this.sorted.slice(this.next)
    for (const bytes of this.waiting)
      for (let at = 0; at < bytes.length; at += rowBytes)
        rows.push(bytes.subarray(at, at + rowBytes))
    const times = new Map(rows.map((row) => [row, timeOf(row)]))
    this.sorted = rows.sort(
      (one, other) => times.get(one)! - times.get(other)! || Buffer.compare(one, other),
    )
    this.waiting = []
    this.next = 0
  }

  /** Hands out up to `most` rows; false: there are more. */
  take(most: number, teach: (row: Row) => void): boolean {
    if (this.waiting.length > 0) this.sort()
    const end = Math.min(this.sorted.length, this.next + most)
    this.size -= end - this.next
    while (this.next < end) teach(rowOf(this.sorted[this.next++]!))
    if (this.next < this.sorted.length) return false
    this.sorted = []
    this.next = 0
    return true
  }

  /** What waits, for a snapshot. */
  saved(): Uint8Array {
    return Buffer.concat([...this.sorted.slice(this.next), ...this.waiting])
  }
}

const ageOf = (row: Uint8Array) =>
  ((row[2]! << 24) | (row[3]! << 16) | (row[4]! << 8) | row[5]!) >>> 0
const timeOf = (row: Uint8Array): number => timeIn(row, headBytes) + ageOf(row)
const rowOf = (row: Uint8Array): Row => ({
  part: parts[row[0]!]!,
  weight: row[1]!,
  age: ageOf(row),
  features: row.subarray(headBytes),
})
export const isRows = (bytes: Uint8Array): boolean => {
  for (let at = 0; at < bytes.length; at += rowBytes) if (bytes[at]! >= parts.length) return false
  return bytes.length % rowBytes === 0
}
