/** Cumulative sums over time: how much had been added by a time, up to hours ago. Older times are stored at wider distances. */
const levels = 18
const kept = 32
/** Milliseconds between two stored times of the finest level. Each level is twice as wide as the one before. */
const finest = 10
/** If the clock is set back by more milliseconds, the sums start again. */
const longest = 60_000

export class SentCounts {
  sum = 0
  private readonly times = Float64Array.from({ length: levels * kept })
  private readonly last = new Float64Array(levels).fill(Number.NaN)
  private first = Number.NaN
  private newest = 0

  addCount(amount: number, time: number): void {
    // If the clock was set back by less, sums are added at the latest time.
    if (!(this.first <= time) || time < this.newest - longest) this.begin(time)
    const now = Math.max(time, this.newest)
    this.newest = now
    for (let level = 0, width = finest; level < levels; level++, width *= 2) {
      const moment = Math.floor(now / width)
      const from = this.last[level]!
      if (moment === from) break
      for (let n = Math.max(from + 1, moment - kept + 1); n <= moment; n++)
        this.times[level * kept + (n % kept)] = this.sum
      this.last[level] = moment
    }
    this.sum += amount
  }

  private begin(now: number): void {
    this.first = now
    this.newest = now
    this.sum = 0
    this.times.fill(0)
    for (let level = 0, width = finest; level < levels; level++, width *= 2)
      this.last[level] = Math.floor(now / width)
  }

  /** The sum at a time, interpolated. */
  until(then: number): number {
    if (!(then > this.first)) return 0
    for (let level = 0, width = finest; level < levels; level++, width *= 2) {
      const moment = Math.floor(then / width)
      const last = this.last[level]!
      if (moment >= last + 1 || (moment === last && level === 0)) return this.sum
      if (moment <= last - kept + 1) continue
      const from = this.times[level * kept + (moment % kept)]!
      const to = moment === last ? this.sum : this.times[level * kept + ((moment + 1) % kept)]!
      return from + (to - from) * (then / width - moment)
    }
    return 0
  }

  /** Numbers that are saved. */
  static readonly width = 3 + levels + levels * kept

  /** Writes `width` numbers. */
  save(into: Float64Array, offset: number): void {
    into.set([this.sum, this.first, this.newest], offset)
    into.set(this.last, offset + 3)
    into.set(this.times, offset + 3 + levels)
  }

  restoreCounts(from: Float64Array): void {
    ;[this.sum, this.first, this.newest] = from as unknown as [number, number, number]
    this.last.set(from.subarray(3, 3 + levels))
    this.times.set(from.subarray(3 + levels, SentCounts.width))
  }
}
