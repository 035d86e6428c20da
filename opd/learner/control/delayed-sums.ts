/**
 * Bids, their expected wins and their wins, kept until a further win is unlikely. They are summed in slices of the time at
 * which the bids were sent, so the memory does not depend on the rate.
 */
const slices = 64

export class DelayedSums {
  private readonly from = new Float64Array(slices)
  private readonly dues = new Float64Array(slices)
  private readonly bids = new Float64Array(slices)
  private readonly wins = new Float64Array(slices)
  private readonly columns = [this.dues, this.bids, this.wins]
  private head = 0
  private count = 0

  /** `span`: milliseconds for which they are kept. A slice is a sixteenth of it. */
  add(due: number, bids: number, now: number, span: number): void {
    const slice = this.sliceAt(now, span)
    this.dues[slice]! += due
    this.bids[slice]! += bids
  }

  private sliceAt(now: number, span: number): number {
    const last = (this.head + this.count - 1 + slices) % slices
    const full = this.count === slices
    if (this.count > 0 && (full || now - this.from[last]! < span / 16)) return last
    const next = (this.head + this.count++) % slices
    this.from[next] = now
    this.dues[next] = this.bids[next] = this.wins[next] = 0
    return next
  }

  /** Adds to the slice of the time `at`; false: it was taken already. */
  addBack(due: number, bids: number, wins: number, at: number): boolean {
    for (let n = this.count - 1; n >= 0; n--) {
      const slice = (this.head + n) % slices
      if (this.from[slice]! > at) continue
      this.dues[slice]! += due
      this.bids[slice]! += bids
      this.wins[slice]! += wins
      return true
    }
    return false
  }

  /** Takes the slices that began before `before`. `newer`: expected wins of those that began after `since`. */
  take(before: number, since: number): { dues: number; newer: number; bids: number; wins: number } {
    const taken = { dues: 0, newer: 0, bids: 0, wins: 0 }
    for (; this.count > 0 && this.from[this.head]! < before; this.count--) {
      const { head } = this
      taken.dues += this.dues[head]!
      if (this.from[head]! > since) taken.newer += this.dues[head]!
      taken.bids += this.bids[head]!
      taken.wins += this.wins[head]!
      this.head = (head + 1) % slices
    }
    return taken
  }

  /** For each column, the times of the slices and the sums. */
  saved(): number[][][] {
    const inOrder = (of: Float64Array) =>
      Array.from({ length: this.count }, (_each, n) => of[(this.head + n) % slices]!)
    return this.columns.map((column) => [inOrder(this.from), inOrder(column)])
  }

  restore(saved: readonly (readonly (readonly number[])[])[]): void {
    const from = saved[0]?.[0] ?? []
    this.from.set(from)
    for (const [n, column] of this.columns.entries()) column.set(saved[n]?.[1] ?? [])
    this.head = 0
    this.count = from.length
  }
}
