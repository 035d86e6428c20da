/**
 * Amounts that wait until a win has become unlikely: summed in slices of time, so that any rate takes the same memory.
 */
const slices = 64

export class DelayedSum {
  private readonly from = new Float64Array(slices)
  private readonly amounts = new Float64Array(slices)
  private head = 0
  private count = 0

  /** `span`: milliseconds that the amount will wait; a slice is a sixteenth of it. */
  add(amount: number, now: number, span: number): void {
    const last = (this.head + this.count - 1 + slices) % slices
    const full = this.count === slices
    if (this.count > 0 && (full || now - this.from[last]! < span / 16)) {
      this.amounts[last]! += amount
      return
    }
    const next = (this.head + this.count++) % slices
    this.from[next] = now
    this.amounts[next] = amount
  }

  /** Adds to the slice that `at` fell into; false where that one is out already. */
  addBack(amount: number, at: number): boolean {
    for (let n = this.count - 1; n >= 0; n--) {
      const slice = (this.head + n) % slices
      if (this.from[slice]! > at) continue
      this.amounts[slice]! += amount
      return true
    }
    return false
  }

  saved(): number[][] {
    const slice = (of: Float64Array) =>
      Array.from({ length: this.count }, (_each, n) => of[(this.head + n) % slices]!)
    return [slice(this.from), slice(this.amounts)]
  }

  restore([from = [], amounts = []]: readonly (readonly number[])[]): void {
    this.from.set(from)
    this.amounts.set(amounts)
    this.head = 0
    this.count = from.length
  }

  /** Of what was taken out last, what had come in after `since`. */
  newer = 0

  /** Takes out what came in before. */
  take(before: number, since = 0): number {
    let sum = 0
    this.newer = 0
    while (this.count > 0 && this.from[this.head]! < before) {
      sum += this.amounts[this.head]!
      if (this.from[this.head]! > since) this.newer += this.amounts[this.head]!
      this.head = (this.head + 1) % slices
      this.count--
    }
    return sum
  }
}
