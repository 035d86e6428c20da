/**
 * Notices per bid against what they were: CUSUM (Page 1954) of the log likelihood ratio of a fall to `fallen`, neutral at a
 * fall of 10 %. The reference is the win rate of the last hours, not the model, which learns a fall within minutes and
 * would hide it. A day's cycle moves by a few per cent an hour; and an hour that was as poor the day before is no alarm.
 */
const fallen = 0.8
const ratioOfWin = Math.log(fallen)
const hourLong = 3_600_000
/** The reference remembers this long, and at least so many wins; before it has these there is no alarm. */
const leastWins = 2500
const winsBefore = 400
const recentWins = 200
const hourWinsBefore = 80
/** Under this share of the same hour before it is a fall. */
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
  /** Wins per bid by hour of the day, the last time it was; 0: not known. */
  readonly hours = new Float64Array(24)
  cusum = 0

  /**
   * `memory`: milliseconds. At the expected rate an `alarm` of 10 is wrong once in a million expected wins; one supplier,
   * which also drifts on its own, needs more.
   */
  constructor(memory: number, alarm: number) {
    this.memory = memory
    this.alarm = alarm
  }

  /** The rate now over the reference; 1 while little is known. */
  get ratio(): number {
    if (this.wins < winsBefore || this.recentBids === 0) return 1
    return this.recentWon / this.recentBids / (this.wins / this.bids)
  }

  /**
   * Bids whose time has passed, weighted by the share that their prices are expected to keep, and their wins. `usual`:
   * what the rate does everywhere. True: it has fallen.
   */
  seen(bids: number, wins: number, usual: number, now: number): boolean {
    const known = this.wins >= winsBefore
    const expected = known ? ((bids * this.wins) / this.bids) * usual : wins
    this.remember(bids, wins, expected, now)
    if (!known) return false
    this.cusum = Math.max(0, this.cusum + expected * (1 - fallen) + wins * ratioOfWin)
    if (this.cusum < this.alarm) return false
    this.begin()
    const before = this.hours[Math.floor(now / hourLong) % 24]!
    return before === 0 || this.recentWon < sameHour * before * this.recentBids
  }

  /** The reference begins anew with what is recent. */
  begin(): void {
    this.cusum = 0
    this.bids = this.recentBids
    this.wins = this.recentWon
  }

  private remember(bids: number, wins: number, expected: number, now: number): void {
    const passed = this.last === 0 ? 0 : Math.max(0, now - this.last)
    this.last = now
    // the longer of both
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

  restore({ state, hours }: ReturnType<WinRateCusum['saved']>): void {
    Object.assign(this, state)
    this.hours.set(hours)
  }
}
