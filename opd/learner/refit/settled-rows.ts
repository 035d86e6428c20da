/**
 * The window of settled bids that the curve is fitted to: their features and what became of them.
 *
 *   rows     [ 51 bytes | 51 bytes | … ]      a ring of the last 65,536
 *   outcome  [ lost | won | void | … ]
 *   least    the lowest price that would have won; 0: not known
 *   heads, next                               chains by hash, so that a win finds its row
 */
import { featureBytes } from '../features.ts'

export const windowRows = 65_536
const none = -1
/** Copied in one go. */
const sliceRows = 8192
/** `void`: a win that may not train came for it. */
export const outcomes = { lost: 0, won: 1, void: 2 } as const

/** Wins whose exposure is not known here yet: another node is still to send it. */
const earlyMost = 8192

function hashOf(bytes: Uint8Array, from: number, seed: number): number {
  let hash = seed
  for (let at = from; at < from + featureBytes; at++)
    hash = Math.imul(hash ^ bytes[at]!, 0x01000193)
  return (hash ^ (hash >>> 15)) >>> 0
}
const chainOf = (bytes: Uint8Array, from = 0) => hashOf(bytes, from, 0x811c9dc5) % windowRows
/** 53 bits. */
const nameOf = (bytes: Uint8Array) =>
  hashOf(bytes, 0, 0x811c9dc5) * 2 ** 21 + (hashOf(bytes, 0, 0x27d4eb2f) >>> 11)

export class SettledRows {
  private readonly rows = new Uint8Array(windowRows * featureBytes)
  private readonly outcome = new Uint8Array(windowRows)
  private readonly least = new Float32Array(windowRows)
  private readonly heads = new Int32Array(windowRows).fill(none)
  private readonly next = new Int32Array(windowRows).fill(none)
  size = 0
  /** Rows ever. */
  settled = 0
  private readonly early = new Map<number, number>()
  private at = 0

  /** An exposure that settled, as lost for now. */
  add(features: Uint8Array): void {
    const { rows, heads, next, at } = this
    const from = at * featureBytes
    if (this.size === windowRows) this.unchain(at, chainOf(rows, from))
    else this.size++
    rows.set(features, from)
    const name = this.early.size > 0 ? nameOf(features) : 0
    const least = this.early.get(name)
    this.early.delete(name)
    this.outcome[at] = least === undefined ? outcomes.lost : outcomes.won
    this.least[at] = least ?? 0
    const hash = chainOf(rows, from)
    next[at] = heads[hash]!
    heads[hash] = at
    this.at = (at + 1) % windowRows
    this.settled++
  }

  private unchain(row: number, hash: number): void {
    const { heads, next } = this
    if (heads[hash] === row) {
      heads[hash] = next[row]!
      return
    }
    let before = heads[hash]!
    while (next[before] !== row) before = next[before]!
    next[before] = next[row]!
  }

  /** What became of an exposure: one that is in the window, or a win of one that is still to come. */
  became(outcome: keyof typeof outcomes, features: Uint8Array, least = 0): void {
    const { rows, next } = this
    for (let row = this.heads[chainOf(features)]!; row !== none; row = next[row]!) {
      const from = row * featureBytes
      let same = 0
      while (same < featureBytes && rows[from + same] === features[same]) same++
      if (same < featureBytes) continue
      this.outcome[row] = outcomes[outcome]
      this.least[row] = least
      return
    }
    if (outcome !== 'won') return
    const { early } = this
    early.set(nameOf(features), least)
    if (early.size > earlyMost) for (const oldest of early.keys()) return void early.delete(oldest)
  }

  /** Rows in order of settling, oldest first: features, outcomes and lowest winning prices. */
  copy(): { features: Uint8Array; outcome: Uint8Array; least: Float32Array } {
    const copying = this.copying()
    for (;;) {
      const { done, value } = copying.next()
      if (done) return value
    }
  }

  /** The same in slices; rows that are new in between may replace the oldest. */
  *copying(): Generator<undefined, ReturnType<SettledRows['copy']>> {
    const { size } = this
    const oldest = size < windowRows ? 0 : this.at
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

  /** Before rows of another node: those of this node alone lack wins that were reported elsewhere. */
  clear(): void {
    this.heads.fill(none)
    this.early.clear()
    this.size = this.at = 0
  }

  restore({ features, outcome, least }: ReturnType<SettledRows['copy']>): void {
    for (let n = 0; n < outcome.length; n++) {
      this.add(features.subarray(n * featureBytes, (n + 1) * featureBytes))
      const row = (this.at + windowRows - 1) % windowRows
      this.outcome[row] = outcome[n]!
      this.least[row] = least[n]!
    }
  }
}
