/**
 * How long notices take: the last of them, as they came. An exposure is taught at an age drawn from these, so that at
 * any moment as large a share of losses has been taught as of wins: neither a cold start nor a ramp sees mostly wins.
 */
const kept = 128
/** Before notices came: seconds to two minutes. Too long delays the first losses, too short takes wins for them. */
const first = [1, 2, 4, 8, 15, 30, 60, 120].map((seconds) => seconds * 1000)

export class Delays {
  private readonly ages = Float64Array.from(
    { length: kept },
    (_each, n) => first[n % first.length]!,
  )
  private next = first.length
  private filled = first.length
  private draws = 0
  private late = 30_000
  /** When an age was last remembered, and when the last notice came; milliseconds. */
  private last = 0
  private seen = 0

  /**
   * At first only the quickest have come, at any rate of bids: what is remembered spans some times the patience, and that
   * shrinks no faster than the clock runs.
   */
  came(age: number, now: number): void {
    const since = Math.max(0, now - this.last)
    if (since >= this.late / 32 || this.filled === 0) {
      this.last = now
      this.remember(age)
    }
    // A running 95 % quantile: up by 19 steps for what is later, down by one for what is not.
    const step = Math.min(Math.max(100, this.late * 0.01), Math.max(0, now - this.seen) / 2)
    this.seen = Math.max(this.seen, now)
    this.late = Math.max(1000, this.late + (age > this.late ? step * 19 : -step))
  }

  private remember(age: number): void {
    this.ages[this.next] = age
    this.next = (this.next + 1) % kept
    this.filled = Math.min(kept, this.filled + 1)
  }

  /** An age that few notices exceed. */
  get patience(): number {
    return this.late * 1.5
  }

  /** An age, each of those remembered as likely as another; infinite while nothing is known. */
  draw(): number {
    if (this.filled === 0) return Number.POSITIVE_INFINITY
    this.draws = (this.draws + 0x9e3779b9) >>> 0
    return this.ages[Math.floor((this.draws / 2 ** 32) * this.filled)]!
  }

  /** What was remembered no longer holds: only what comes from now on counts. */
  forget(): void {
    this.filled = 0
    this.next = 0
  }

  get known(): number {
    return this.filled
  }

  toJSON(): number[] {
    return Array.from(this.ages.subarray(0, this.filled))
  }

  restore(ages: readonly number[]): void {
    this.forget()
    for (const age of ages.slice(0, kept)) if (age >= 0 && age < 1e12) this.remember(age)
    if (this.filled === 0) for (const age of first) this.remember(age)
  }
}
