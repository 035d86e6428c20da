/**
 * Settled bids are kept for a while with what became of them, and taught again, a little at a time. One pass of a diagonal
 * filter leaves the curve too flat where prices were chosen: an exposure and its win are taught apart, and thirty overlapping
 * weights each take what belongs to another. Gone over again, jointly and by small steps, they settle who was to blame.
 * Measured (bench/opd/README.md): a point of the oracle's margin at equal spend kept, half a point on the spiky market. More
 * of it earns more there, and loses where the curve is of another form than the market: 2.6 points with 30 % of notices lost.
 *
 *   rows     [ 51 bytes | 51 bytes | … ]      a ring of the last 65,536
 *   outcome  [ lost | won | void | … ]
 *   heads, next                               chains by hash, so that a win finds its row
 */
import { featureBytes } from '../features.ts'

export const rehearsed = 65_536
const none = -1
/** What became of it; `void`: a win that may not teach came for it. */
const outcomes = { lost: 0, won: 1, void: 2 } as const

/** What settled owes: so much of a step is taught again for every bid. */
const owedEach = 0.2
/** A lesson, and one where there is no time for all that is owed. */
const [gentle, hurried] = [0.1, 0.3]
const hurriedFrom = 20
const owedMost = 40
/** Lessons a millisecond, .02 % of a core at 4 us, all that is owed at up to 20 bids a second; and those of one call, about a millisecond. */
const perMillisecond = 0.04
const atOnce = 300
/** Fewer rows say too little. */
const fewest = 300

/** Wins whose exposure is not known here yet: another node is still to tell it. */
const earlyMost = 8192

function hashOf(bytes: Uint8Array, from: number, seed: number): number {
  let hash = seed
  for (let at = from; at < from + featureBytes; at++)
    hash = Math.imul(hash ^ bytes[at]!, 0x01000193)
  return (hash ^ (hash >>> 15)) >>> 0
}
const chainOf = (bytes: Uint8Array, from = 0) => hashOf(bytes, from, 0x811c9dc5) % rehearsed
/** 53 bits. */
const nameOf = (bytes: Uint8Array) =>
  hashOf(bytes, 0, 0x811c9dc5) * 2 ** 21 + (hashOf(bytes, 0, 0x27d4eb2f) >>> 11)

export class Rehearsal {
  private readonly rows = new Uint8Array(rehearsed * featureBytes)
  private readonly outcome = new Uint8Array(rehearsed)
  private readonly heads = new Int32Array(rehearsed).fill(none)
  private readonly next = new Int32Array(rehearsed).fill(none)
  /** Rows that it has; bids that ever settled, also before a restart. */
  size = 0
  settled = 0
  private readonly early = new Set<number>()
  private at = 0
  private drawn = 0
  private owed = 0
  /** Lessons that there is time for; and when that was last reckoned. */
  private time = 0
  private taughtAt = Number.NaN

  /** An exposure that was taught, as lost for now. */
  add(features: Uint8Array): void {
    const { rows, heads, next, at } = this
    const from = at * featureBytes
    if (this.size === rehearsed) this.unchain(at, chainOf(rows, from))
    else this.size++
    rows.set(features, from)
    const wonBefore = this.early.size > 0 && this.early.delete(nameOf(features))
    this.outcome[at] = wonBefore ? outcomes.won : outcomes.lost
    const hash = chainOf(rows, from)
    next[at] = heads[hash]!
    heads[hash] = at
    this.at = (at + 1) % rehearsed
    this.settled++
    const share = this.size / Math.min(rehearsed, this.settled)
    this.owed = Math.min(owedMost, this.owed + owedEach * share)
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

  /** What became of an exposure: one that is kept, or a win of one that is still to be told. */
  became(outcome: 'won' | 'void', features: Uint8Array): void {
    const { rows, next } = this
    for (let row = this.heads[chainOf(features)]!; row !== none; row = next[row]!) {
      const from = row * featureBytes
      let same = 0
      while (same < featureBytes && rows[from + same] === features[same]) same++
      if (same < featureBytes) continue
      this.outcome[row] = outcomes[outcome]
      return
    }
    if (outcome === 'void') return
    const { early } = this
    early.add(nameOf(features))
    if (early.size > earlyMost) for (const oldest of early) return void early.delete(oldest)
  }

  /**
   * As many lessons as are owed and as time allows; `teach` answers whether the row was fit for it. After a restart, while
   * few rows are known of the many that the model was taught, as much fewer.
   */
  rehearse(now: number, teach: (features: Uint8Array, won: boolean, rate: number) => void): void {
    const passed = now - this.taughtAt
    this.taughtAt = now
    if (!(passed > 0)) return
    this.time = Math.min(atOnce, this.time + perMillisecond * passed)
    if (this.size < fewest) return
    while (this.time >= 1 && this.owed > 0) {
      const rate = this.owed > hurriedFrom ? hurried : gentle
      this.owed -= rate
      this.time--
      // Multiples of the golden ratio: even at any length, and the same on every run.
      this.drawn = (this.drawn + 0x9e3779b1) >>> 0
      const row = Math.floor((this.drawn / 2 ** 32) * this.size)
      const outcome = this.outcome[row]!
      if (outcome === outcomes.void) continue
      const from = row * featureBytes
      teach(this.rows.subarray(from, from + featureBytes), outcome === outcomes.won, rate)
    }
  }
}
