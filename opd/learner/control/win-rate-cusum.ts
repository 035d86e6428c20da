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
  /** -0, not 0, so that the fields are doubles from the start: see `Guards`. */
  private readonly state = {
    bids: -0,
    wins: -0,
    recentBids: -0,
    recentWon: -0,
    last: -0,
    hour: -1,
    hourBids: -0,
    hourWon: -0,
    cusum: -0,
  }
  /** Wins per bid in each hour of the last day; 0: not known. */
  readonly hours = new Float64Array(24)

  /**
   * `memory`: milliseconds of the reference. At a constant rate an `alarm` of 10 is false once in a million expected wins.
   * The rate of a single supplier also drifts, so its `alarm` is larger.
   */
  constructor(memory: number, alarm: number) {
    this.memory = memory
    this.alarm = alarm
  }

  /** Wins that the reference expects of so many bids; null: it has too few wins to be one of the references of all suppliers. */
  expects(among: number): number | null {
    const { bids, wins } = this.state
    return wins < winsOfAll ? null : (among * wins) / bids
  }

  /**
   * Adds bids that had the time to win, weighted by the share of wins that their prices are expected to keep, and their
   * wins. Returns whether the rate fell.
   */
  seen(bids: number, wins: number, now: number): boolean {
    const { state } = this
    const known = state.wins >= winsBefore
    const expected = known ? (bids * state.wins) / state.bids : wins
    this.remember(bids, wins, expected, now)
    if (!known) return false
    state.cusum = Math.max(0, state.cusum + expected * (1 - fallen) + wins * ratioOfWin)
    if (state.cusum < this.alarm) return false
    this.begin()
    const before = this.hours[Math.floor(now / hourLong) % 24]!
    return before === 0 || state.recentWon < sameHour * before * state.recentBids
  }

  /** Replaces the reference by the recent rate. */
  begin(): void {
    const { recentBids, recentWon } = this.state
    Object.assign(this.state, { cusum: 0, bids: recentBids, wins: recentWon })
  }

  private remember(bids: number, wins: number, expected: number, now: number): void {
    const { state } = this
    const passed = state.last === 0 ? 0 : Math.max(0, now - state.last)
    state.last = now
    // The reference covers `memory` milliseconds or `leastWins`, whichever is longer.
    const forgotten = Math.min(1, passed / this.memory, expected / leastWins)
    state.bids += bids - state.bids * forgotten
    state.wins += wins - state.wins * forgotten
    const faded = Math.min(1, expected / recentWins)
    state.recentBids += bids - state.recentBids * faded
    state.recentWon += wins - state.recentWon * faded
    const hour = Math.floor(now / hourLong) % 24
    if (hour !== state.hour) {
      if (state.hour >= 0 && state.hourWon >= hourWinsBefore)
        this.hours[state.hour] = state.hourWon / state.hourBids
      Object.assign(state, { hour, hourBids: -0, hourWon: -0 })
    }
    state.hourBids += bids
    state.hourWon += wins
  }

  saved() {
    return { state: { ...this.state }, hours: [...this.hours] }
  }

  restoreHours({ state, hours }: ReturnType<WinRateCusum['saved']>): void {
    Object.assign(this.state, state)
    this.hours.set(hours)
  }
}
