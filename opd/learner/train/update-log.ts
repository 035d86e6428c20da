/**
 * The rows that a node trained its model with: exposures when they settled, and wins when they arrived. Other nodes train with the
 * same rows, so that all know what one node would know that received everything. Sums of weights would be smaller, but each node
 * responds to a change in full, and their sum responds several times.
 *
 *   part  weight  age, ms  features
 *   1     1       4        51
 */
import { timeIn, wordAt, writeWord } from '../exposure.ts'
import { featureBytes, featureHash } from '../features.ts'

/**
 * `lost`: an exposure settled. `undone`: it must not train the model after all. A win: `paid` cleared at the price sent, `saved`
 * below it, `won` above it.
 */
const parts = ['lost', 'undone', 'won', 'paid', 'saved'] as const
export type UpdatePart = (typeof parts)[number]

const headBytes = 6
export const rowBytes = headBytes + featureBytes
/** Rows of one delta at most. Of more rows, every second bid is left out with all its rows, then every second of the rest. */
export const updatesMost = 8192

export interface Row {
  part: UpdatePart
  /** Number of bids that an exposure represents. */
  weight: number
  /** Milliseconds between the bid and the row. */
  age: number
  features: Uint8Array
}

/** The rows since the last delta. The buffer grows to half a megabyte. */
export class UpdateLog {
  private bytes = new Uint8Array(64 * rowBytes)
  private count = 0
  /** Rows of a bid are kept if so many low bits of its hash are 0. */
  private level = 0

  addRow(part: UpdatePart, weight: number, age: number, features: Uint8Array): void {
    while (this.count === updatesMost) this.thin()
    if (!this.keeps(features, 0)) return
    const offset = this.count++ * rowBytes
    if (offset === this.bytes.length) {
      const wider = new Uint8Array(Math.min(2 * this.bytes.length, updatesMost * rowBytes))
      wider.set(this.bytes)
      this.bytes = wider
    }
    const { bytes } = this
    bytes[offset] = parts.indexOf(part)
    bytes[offset + 1] = weight
    writeWord(bytes, offset + 2, age > 0 ? Math.min(0xffffffff, Math.floor(age)) : 0)
    bytes.set(features, offset + headBytes)
  }

  /** An exposure and its win have the same features, so both are kept or neither. */
  private keeps(bytes: Uint8Array, from: number): boolean {
    return this.level === 0 || (featureHash(bytes, from) & (2 ** this.level - 1)) === 0
  }

  private thin(): void {
    this.level++
    const { bytes, count } = this
    this.count = 0
    for (let index = 0; index < count * rowBytes; index += rowBytes)
      if (this.keeps(bytes, index + headBytes))
        bytes.copyWithin(this.count++ * rowBytes, index, index + rowBytes)
  }

  /** The rows, as a view that is valid until the next `add`. */
  takeRows(): Uint8Array {
    const { count } = this
    this.count = 0
    this.level = 0
    return this.bytes.subarray(0, count * rowBytes)
  }
}

const ageOf = (rows: Uint8Array, offset: number) => wordAt(rows, offset + 2)
/** When the row that begins at `at` trained the model, milliseconds since the epoch. */
export const timeOf = (rows: Uint8Array, offset: number): number =>
  timeIn(rows, offset + headBytes) + ageOf(rows, offset)

export const rowOf = (rows: Uint8Array, offset: number): Row => ({
  part: parts[rows[offset]!]!,
  weight: rows[offset + 1]!,
  age: ageOf(rows, offset),
  features: rows.subarray(offset + headBytes, offset + rowBytes),
})

/** Ages of the wins among rows, milliseconds. */
export function* winAges(rows: Uint8Array): Generator<number> {
  for (let index = 0; index < rows.length; index += rowBytes)
    if (rows[index]! > parts.indexOf('undone')) yield ageOf(rows, index)
}

/**
 * Whether bytes are whole rows with known parts.
 *
 * @param bytes of another node, not yet trusted
 */
export const isRows = (bytes: Uint8Array): boolean => {
  for (let index = 0; index < bytes.length; index += rowBytes)
    if (bytes[index]! >= parts.length) return false
  return bytes.length % rowBytes === 0
}
