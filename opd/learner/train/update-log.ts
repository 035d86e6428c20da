/**
 * What a node trained its model with, as it was: exposures as they settled and wins as they came. Other nodes train with the
 * same rows, so that many nodes know what one would that saw all. Sums of what was learned would be smaller, but each node
 * responds to the same surprise in full, and their sum responds too often.
 *
 *   part  weight  age, ms  features
 *   1     1       4        51
 */
import { timeIn, wordAt, writeWord } from '../exposure.ts'
import { featureBytes, featureHash } from '../features.ts'

/** `lost`: an exposure settled; `undone`: one that trains nothing after all; `paid`, `saved`: a win, at the price sent or below. */
const parts = ['lost', 'undone', 'won', 'paid', 'saved'] as const
export type UpdatePart = (typeof parts)[number]

const headBytes = 6
export const rowBytes = headBytes + featureBytes
/** Sent between two deltas. Of more, every second bid is left out with all its rows, then every second of the rest. */
export const updatesMost = 8192

export interface Row {
  part: UpdatePart
  /** As often as this an exposure is trained with. */
  weight: number
  /** Milliseconds between the bid and this. */
  age: number
  features: Uint8Array
}

/** Grows to half a megabyte, and stays. */
export class UpdateLog {
  private bytes = new Uint8Array(64 * rowBytes)
  private count = 0
  /** A bid is sent if so many low bits of its hash are 0. */
  private level = 0

  add(part: UpdatePart, weight: number, age: number, features: Uint8Array): void {
    while (this.count === updatesMost) this.thin()
    if (!this.sampled(features, 0)) return
    const at = this.count++ * rowBytes
    if (at === this.bytes.length) {
      const wider = new Uint8Array(Math.min(2 * this.bytes.length, updatesMost * rowBytes))
      wider.set(this.bytes)
      this.bytes = wider
    }
    const { bytes } = this
    bytes[at] = parts.indexOf(part)
    bytes[at + 1] = weight
    writeWord(bytes, at + 2, age > 0 ? Math.min(0xffffffff, Math.floor(age)) : 0)
    bytes.set(features, at + headBytes)
  }

  /** An exposure and its win have the same features, so both are sampled or none. */
  private sampled(bytes: Uint8Array, from: number): boolean {
    return this.level === 0 || (featureHash(bytes, from) & (2 ** this.level - 1)) === 0
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

const ageOf = (rows: Uint8Array, at: number) => wordAt(rows, at + 2)
/** When the row that begins at `at` was trained with, milliseconds since the epoch. */
export const timeOf = (rows: Uint8Array, at: number): number =>
  timeIn(rows, at + headBytes) + ageOf(rows, at)

export const rowOf = (rows: Uint8Array, at: number): Row => ({
  part: parts[rows[at]!]!,
  weight: rows[at + 1]!,
  age: ageOf(rows, at),
  features: rows.subarray(at + headBytes, at + rowBytes),
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
