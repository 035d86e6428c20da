/**
 * What a node trained its model with, as it was: exposures as they settled and wins as they came. Others teach themselves the
 * same, so that many nodes know what one would that saw all. Sums of what was learned would be smaller, but each node answers
 * the same surprise in full, and their sum answers it too often: that cost 2.5 points of margin with eight nodes and 5 s.
 *
 *   part  weight  age, ms  features
 *   1     1       4        51
 */
import { timeIn } from '../exposure.ts'
import { featureBytes } from '../features.ts'

/** `lost`: an exposure settled; `undone`: one that teaches nothing after all; `paid` and `saved`: a win, at the price sent or below. */
const parts = ['lost', 'undone', 'won', 'paid', 'saved'] as const
export type TaughtPart = (typeof parts)[number]

const headBytes = 6
export const rowBytes = headBytes + featureBytes
/** Sent between two deltas. Of more, every second bid is left out with all its rows, then every second of the rest. */
export const updatesMost = 8192

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
    while (this.count === updatesMost) this.thin()
    if (!this.sampled(features, 0)) return
    const at = this.count++ * rowBytes
    if (at === this.bytes.length) {
      const wider = new Uint8Array(Math.min(2 * this.bytes.length, updatesMost * rowBytes))
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

/** Rows of one delta in their order. */
interface Run {
  bytes: Uint8Array
  offsets: number[]
  times: Float64Array
  next: number
}

/**
 * Rows of other nodes that wait to be taught here. Taken by time, then by their bytes: whose delta came first is no matter.
 * Each delta is sorted as it comes (it nearly is), and deltas are merged as rows are taken: sorting 60,000 rows in one go
 * took 50 ms.
 */
export class ReceivedRows {
  private runs: Run[] = []

  size = 0

  /** Whole rows. */
  add(rows: Uint8Array): void {
    if (rows.length === 0) return
    const count = rows.length / rowBytes
    const times = Float64Array.from({ length: count }, (_each, n) => timeOf(rows, n * rowBytes))
    const order = Array.from(times, (_each, n) => n).sort(
      (one, other) =>
        times[one]! - times[other]! || compared(rows, one * rowBytes, rows, other * rowBytes),
    )
    const sorted = times.map((_each, n) => times[order[n]!]!)
    const offsets = order.map((n) => n * rowBytes)
    this.runs.push({ bytes: rows, offsets, times: sorted, next: 0 })
    this.size += count
  }

  /** Hands out up to `most` rows. */
  take(most: number, teach: (row: Row) => void): void {
    for (let left = Math.min(most, this.size); left > 0; left--) {
      const run = this.earliest()
      const from = run.offsets[run.next++]!
      if (run.next === run.offsets.length) this.runs.splice(this.runs.indexOf(run), 1)
      this.size--
      teach(rowOf(run.bytes.subarray(from, from + rowBytes)))
    }
  }

  private earliest(): Run {
    const { runs } = this
    let found = runs[0]!
    for (let n = 1; n < runs.length; n++) {
      const run = runs[n]!
      const later = run.times[run.next]! - found.times[found.next]!
      const [at, foundAt] = [run.offsets[run.next]!, found.offsets[found.next]!]
      if (later < 0 || (later === 0 && compared(run.bytes, at, found.bytes, foundAt) < 0))
        found = run
    }
    return found
  }

  /** What waits, for a snapshot. */
  saved(): Uint8Array {
    return Buffer.concat(
      this.runs.flatMap(({ bytes, offsets, next }) =>
        offsets.slice(next).map((from) => bytes.subarray(from, from + rowBytes)),
      ),
    )
  }
}

function compared(one: Uint8Array, from: number, other: Uint8Array, otherFrom: number): number {
  for (let at = 0; at < rowBytes; at++) {
    const difference = one[from + at]! - other[otherFrom + at]!
    if (difference !== 0) return difference
  }
  return 0
}

const ageOf = (row: Uint8Array, at = 0) =>
  ((row[at + 2]! << 24) | (row[at + 3]! << 16) | (row[at + 4]! << 8) | row[at + 5]!) >>> 0
const timeOf = (rows: Uint8Array, at: number): number =>
  timeIn(rows, at + headBytes) + ageOf(rows, at)
const rowOf = (row: Uint8Array): Row => ({
  part: parts[row[0]!]!,
  weight: row[1]!,
  age: ageOf(row),
  features: row.subarray(headBytes),
})
/** Ages of the wins among rows, milliseconds. */
export function* winAges(rows: Uint8Array): Generator<number> {
  for (let at = 0; at < rows.length; at += rowBytes)
    if (rows[at]! > parts.indexOf('undone')) yield ageOf(rows, at)
}
export const isRows = (bytes: Uint8Array): boolean => {
  for (let at = 0; at < bytes.length; at += rowBytes) if (bytes[at]! >= parts.length) return false
  return bytes.length % rowBytes === 0
}
