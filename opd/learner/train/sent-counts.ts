/** Cumulative sums over time: how much had been added by a time, up to hours ago. Older times are stored at wider distances. */
const levels = 18
const kept = 32
/** Milliseconds between two stored times of the finest level. Each level is twice as wide as the one before. */
const finest = 10
/** If the clock is set back by more milliseconds, the sums start again. */
const longest = 60_000

export class SentCounts {
  /** Numbers of the whole state. */
  static readonly width = 3 + levels + levels * kept
  /** The sum, the first time and the newest one. */
  private readonly numbers: Float64Array
  private readonly last: Float64Array
  private readonly times: Float64Array

  /** @param state `width` numbers, which it changes */
  constructor(state = new Float64Array(SentCounts.width)) {
    this.numbers = state.subarray(0, 3)
    this.last = state.subarray(3, 3 + levels)
    this.times = state.subarray(3 + levels)
    this.numbers[1] = Number.NaN
    this.last.fill(Number.NaN)
  }

  get sum(): number {
    return this.numbers[0]!
  }

  addCount(amount: number, time: number): void {
    // If the clock was set back by less, sums are added at the latest time.
    const { numbers } = this
    if (!(numbers[1]! <= time) || time < numbers[2]! - longest) this.begin(time)
    const now = Math.max(time, numbers[2]!)
    numbers[2] = now
    for (let level = 0, width = finest; level < levels; level++, width *= 2) {
      const moment = Math.floor(now / width)
      const from = this.last[level]!
      if (moment === from) break
      for (let n = Math.max(from + 1, moment - kept + 1); n <= moment; n++)
        this.times[level * kept + (n % kept)] = numbers[0]!
      this.last[level] = moment
    }
    numbers[0]! += amount
  }

  private begin(now: number): void {
    this.numbers.set([0, now, now])
    this.times.fill(0)
    for (let level = 0, width = finest; level < levels; level++, width *= 2)
      this.last[level] = Math.floor(now / width)
  }

  /** The sum at a time, interpolated. */
  until(then: number): number {
    if (!(then > this.numbers[1]!)) return 0
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
}
