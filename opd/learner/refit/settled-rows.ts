/**
 * The window of settled bids that the curve is fitted to: their features and outcomes.
 *
 *   rows     [ 51 bytes | 51 bytes | … ]      a ring of the last 65,536
 *   outcome  [ lost | won | void | … ]
 *   least    the lowest price that would have won; 0: not known
 *   heads, next                               chains by hash, so that a win finds its row
 */

import { drained } from '../../base/slices.ts'
import { featureBytes, featureHash, hasFeatures } from '../features.ts'

export const windowRows = 65_536
const none = -1
/** Rows of one slice of copying. */
const sliceRows = 8192
/** Rows of one slice of restoring: each finds its chain. */
const restoredRows = 2048
/** `void`: a win came that must not train the model. */
export const outcomes = { lost: 0, won: 1, void: 2 } as const
/** Wins that are kept until another node sends their exposure. */
const earlyMost = 8192

/** Settled rows, oldest first. */
export interface RowArrays {
  features: Uint8Array
  outcome: Uint8Array
  /** Lowest winning prices. */
  least: Float32Array
}

const chainOf = (bytes: Uint8Array, from = 0) => featureHash(bytes, from) % windowRows
/** Identifies an exposure by 53 bits. */
const nameOf = (bytes: Uint8Array) =>
  featureHash(bytes) * 2 ** 21 + (featureHash(bytes, 0, 0x27d4eb2f) >>> 11)

export class SettledRows {
  size = 0
  /** Number of rows ever. */
  settled = 0
  private readonly rows = new Uint8Array(windowRows * featureBytes)
  private readonly outcome = new Uint8Array(windowRows)
  private readonly least = new Float32Array(windowRows)
  private readonly heads = new Int32Array(windowRows).fill(none)
  private readonly next = new Int32Array(windowRows).fill(none)
  /** Wins that came before their exposure: the lowest winning price by name. */
  private readonly early = new Map<number, number>()
  private position = 0

  /**
   * Adds an exposure that settled, as lost for now. The oldest row is dropped when the window is full.
   *
   * @param features whole; copied
   */
  addRow(features: Uint8Array): void {
    const { rows, heads, position } = this
    const from = position * featureBytes
    if (this.size === windowRows) this.unchain(position, chainOf(rows, from))
    else this.size++
    rows.set(features, from)
    const name = this.early.size > 0 ? nameOf(features) : 0
    const least = this.early.get(name)
    this.early.delete(name)
    this.outcome[position] = least === undefined ? outcomes.lost : outcomes.won
    this.least[position] = least ?? 0
    const chain = chainOf(rows, from)
    this.next[position] = heads[chain]!
    heads[chain] = position
    this.position = (position + 1) % windowRows
    this.settled++
  }

  private unchain(row: number, chain: number): void {
    const { heads, next } = this
    let before = none
    for (let index = heads[chain]!; index !== row; index = next[index]!) before = index
    if (before === none) heads[chain] = next[row]!
    else next[before] = next[row]!
  }

  /**
   * Sets the outcome of an exposure in the window. A win may also be of an exposure that is still to come.
   *
   * @param outcome `void`: it is no evidence
   * @param features of the exposure, as `addRow` was given them
   * @param least the lowest price that would have won, CPM in the base currency; 0: not known
   */
  setOutcome(outcome: keyof typeof outcomes, features: Uint8Array, least = 0): void {
    const { rows, next, early } = this
    for (let row = this.heads[chainOf(features)]!; row !== none; row = next[row]!) {
      if (!hasFeatures(rows, row * featureBytes, features)) continue
      this.outcome[row] = outcomes[outcome]
      this.least[row] = least
      return
    }
    if (outcome !== 'won') return
    early.set(nameOf(features), least)
    if (early.size > earlyMost) for (const oldest of early.keys()) return void early.delete(oldest)
  }

  /**
   * Copies of the features of the newest rows, the newest first.
   *
   * @param accepts whether a row, which begins at `from`, is one of them; it keeps no bytes
   * @param most rows, at most
   */
  newest(accepts: (bytes: Uint8Array, from: number) => boolean, most: number): Uint8Array[] {
    const { rows, size, position } = this
    const found: Uint8Array[] = []
    for (let back = 1; back <= size && found.length < most; back++) {
      const row = (position - back + windowRows) % windowRows
      const from = row * featureBytes
      if (this.outcome[row] === outcomes.void || !accepts(rows, from)) continue
      found.push(rows.slice(from, from + featureBytes))
    }
    return found
  }

  /** What is saved beside the rows. */
  saved(): { settled: number; early: [number, number][] } {
    return { settled: this.settled, early: [...this.early] }
  }

  copy(): RowArrays {
    return drained(this.copying())
  }

  /** A copy in slices. Rows that are added between slices may replace the oldest. */
  *copying(): Generator<undefined, RowArrays> {
    const { size } = this
    const oldest = size < windowRows ? 0 : this.position
    const features = new Uint8Array(size * featureBytes)
    const outcome = new Uint8Array(size)
    const least = new Float32Array(size)
    for (let to = 0; to < size; ) {
      const from = (oldest + to) % windowRows
      const end = Math.min(from + sliceRows, size, from + size - to)
      features.set(this.rows.subarray(from * featureBytes, end * featureBytes), to * featureBytes)
      outcome.set(this.outcome.subarray(from, end), to)
      least.set(this.least.subarray(from, end), to)
      to += end - from
      yield
    }
    return { features, outcome, least }
  }

  /** Removes all rows, before those of another node: rows of this node lack wins that were reported elsewhere. */
  clear(): void {
    this.heads.fill(none)
    this.early.clear()
    this.size = this.position = 0
  }

  /**
   * Adds rows in slices, oldest first.
   *
   * @param rows as `copying` returned them
   * @param early wins that wait for their exposures, as `saved` returned them
   */
  *restoring(
    { features, outcome, least }: RowArrays,
    early: readonly [number, number][] = [],
  ): Generator<undefined, void> {
    for (let n = 0; n < outcome.length; n++) {
      if (n % restoredRows === 0) yield
      const row = this.position
      this.addRow(features.subarray(n * featureBytes, (n + 1) * featureBytes))
      this.outcome[row] = outcome[n]!
      this.least[row] = least[n]!
    }
    for (const [name, price] of early) this.early.set(name, price)
  }
}
