/**
 * Detects a fall of wins per bid by a CUSUM (Page 1954) of the log likelihood ratio of a fall to 80 %; it neither rises nor
 * falls at 90 %. The reference is the win rate of the last hours and not the model, which learns a fall within minutes and
 * would hide it. A daily cycle changes the rate by a few per cent an hour. It is no alarm if the same hour of the day before
 * was as low.
 */
const fallen = 0.8
const ratioOfWin = Math.log(fallen)
const hourLong = 3_600_000
/** Expected wins that the reference contains at least. */
const leastWins = 2500
/** Wins that the reference needs before there can be an alarm. */
const winsBefore = 400
/** Wins that it needs before the supplier counts in a fall of all: together, many are known well enough. */
const winsOfAll = 50
/** Expected wins of the recent rate. */
const recentWins = 200
/** An hour with fewer wins is not kept for the next day. */
const hourWinsBefore = 80
/** It is a fall only if the rate is below this share of the same hour of the day before. */
const sameHour = 0.9

export class WinRateCusum {
  private readonly memory: number
  private readonly alarm: number
  private bids = 0
  private wins = 0
  private recentBids = 0
  private recentWon = 0
  private last = 0
  private hour = -1
  private hourBids = 0
  private hourWon = 0
  /** Wins per bid in each hour of the last day; 0: not known. */
  readonly hours = new Float64Array(24)
  cusum = 0

  /**
   * `memory`: milliseconds of the reference. At a constant rate an `alarm` of 10 is false once in a million expected wins.
   * The rate of a single supplier also drifts, so its `alarm` is larger.
   */
  constructor(memory: number, alarm: number) {
    this.memory = memory
    this.alarm = alarm
  }

  /** Wins that the reference expects of so many bids; null: it has too few wins to be one of the references of all suppliers. */
  expects(bids: number): number | null {
    return this.wins < winsOfAll ? null : (bids * this.wins) / this.bids
  }

  /**
   * Adds bids that had the time to win, weighted by the share of wins that their prices are expected to keep, and their
   * wins. Returns whether the rate fell.
   */
  seen(bids: number, wins: number, now: number): boolean {
    const known = this.wins >= winsBefore
    const expected = known ? (bids * this.wins) / this.bids : wins
    this.remember(bids, wins, expected, now)
    if (!known) return false
    this.cusum = Math.max(0, this.cusum + expected * (1 - fallen) + wins * ratioOfWin)
    if (this.cusum < this.alarm) return false
    this.begin()
    const before = this.hours[Math.floor(now / hourLong) % 24]!
    return before === 0 || this.recentWon < sameHour * before * this.recentBids
  }

  /** Replaces the reference by the recent rate. */
  begin(): void {
    this.cusum = 0
    this.bids = this.recentBids
    this.wins = this.recentWon
  }

  private remember(bids: number, wins: number, expected: number, now: number): void {
    const passed = this.last === 0 ? 0 : Math.max(0, now - this.last)
    this.last = now
    // The reference covers `memory` milliseconds or `leastWins`, whichever is longer.
    const forgotten = Math.min(1, passed / this.memory, expected / leastWins)
    this.bids += bids - this.bids * forgotten
    this.wins += wins - this.wins * forgotten
    const faded = Math.min(1, expected / recentWins)
    this.recentBids += bids - this.recentBids * faded
    this.recentWon += wins - this.recentWon * faded
    const hour = Math.floor(now / hourLong) % 24
    if (hour !== this.hour) {
      if (this.hour >= 0 && this.hourWon >= hourWinsBefore)
        this.hours[this.hour] = this.hourWon / this.hourBids
      this.hour = hour
      this.hourBids = 0
      this.hourWon = 0
    }
    this.hourBids += bids
    this.hourWon += wins
  }

  saved() {
    const { bids, wins, recentBids, recentWon, last, hour, hourBids, hourWon, cusum } = this
    const state = { bids, wins, recentBids, recentWon, last, hour, hourBids, hourWon, cusum }
    return { state, hours: [...this.hours] }
  }

  restoreHours({ state, hours }: ReturnType<WinRateCusum['saved']>): void {
    Object.assign(this, state)
    this.hours.set(hours)
  }
}
