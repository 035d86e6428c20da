/**
 * Bids, their expected wins and their wins, kept until a further win is unlikely. They are summed in slices of the time at
 * which the bids were sent, so the memory does not depend on the rate.
 *
 *   slice   from  dues  bids  wins      one cache line holds two
 */
const slices = 64
const width = 4
const [from, dues, bids, wins] = [0, 1, 2, 3]

export class DelayedSums {
  /** A ring. */
  private readonly values = new Float64Array(width * slices)
  /** Positions in `values`. */
  private head = 0
  private count = 0

  /** When the oldest slice began; Infinity: there is none. */
  get oldest(): number {
    return this.count === 0 ? Number.POSITIVE_INFINITY : this.values[this.head + from]!
  }

  /** The position of a slice, counted from the oldest. */
  private positionOf(nth: number): number {
    return (this.head + width * nth) % this.values.length
  }

  /** `span`: milliseconds for which they are kept. A slice is a sixteenth of it. */
  addBid(expected: number, sent: number, now: number, span: number): void {
    const slice = this.sliceAt(now, span)
    this.values[slice + dues]! += expected
    this.values[slice + bids]! += sent
  }

  private sliceAt(now: number, span: number): number {
    const { values, count } = this
    if (count > 0) {
      const last = this.positionOf(count - 1)
      if (count === slices || now - values[last + from]! < span / 16) return last
    }
    const next = this.positionOf(this.count++)
    values.fill(0, next, next + width)
    values[next + from] = now
    return next
  }

  /** Adds to the slice of the time `sentAt`; false: it was taken already. */
  addBack(expected: number, sent: number, won: number, sentAt: number): boolean {
    const { values } = this
    for (let n = this.count - 1; n >= 0; n--) {
      const slice = this.positionOf(n)
      if (values[slice + from]! > sentAt) continue
      values[slice + dues]! += expected
      values[slice + bids]! += sent
      values[slice + wins]! += won
      return true
    }
    return false
  }

  /** Takes the slices that began before `before`. `newer`: expected wins of those that began after `since`. */
  takeDue(
    before: number,
    since: number,
  ): { dues: number; newer: number; bids: number; wins: number } {
    const taken = { dues: 0, newer: 0, bids: 0, wins: 0 }
    const { values } = this
    for (; this.oldest < before; this.count--) {
      const { head } = this
      taken.dues += values[head + dues]!
      if (values[head + from]! > since) taken.newer += values[head + dues]!
      taken.bids += values[head + bids]!
      taken.wins += values[head + wins]!
      this.head = this.positionOf(1)
    }
    return taken
  }

  /** The slices, the oldest first. */
  saved(): number[] {
    const { values, head, count } = this
    return Array.from({ length: width * count }, (_each, n) => values[(head + n) % values.length]!)
  }

  restoreSums(saved: readonly number[]): void {
    this.head = 0
    this.count = saved.length / width
    this.values.set(saved)
  }
}
