/** What silence means: whether bids without a notice are lost, or notices have stopped, or a crash took the exposures of their wins. */

/** Wins that are due since the last one came, before losses are no longer taken for losses; and wins that must have come. */
const dueBeforeDoubt = 15
const winsBeforeDoubt = 50
/** Milliseconds without a win that are no burst. */
const quiet = 5000

export class Silence {
  wins = 0
  /** Wins that the model expects of what was settled since the last win. */
  private due = 0
  private wonAt = 0

  won(now: number): void {
    this.wins++
    this.due = 0
    if (now > this.wonAt) this.wonAt = now
  }

  /** Exposures fell due at `dueAt`. Long settled traffic, reported late, is no silence now. */
  settled(wins: number, dueAt: number): void {
    if (dueAt > this.wonAt) this.due += wins
  }

  /** Notices have stopped, or take much longer than they did. */
  doubts(now: number): boolean {
    if (this.wins < winsBeforeDoubt || this.due < dueBeforeDoubt) return false
    // Exposures are settled in bursts: what fell due at once is no silence.
    return now - this.wonAt > quiet
  }
}

/** After a crash exposures are gone, and a win without its exposure would look like a win without bids. */
export class LostExposures {
  /** Until when it is known, and since when this life is; NaN: nothing was lost. */
  private endedAt = Number.NaN
  private bornAt = Number.NaN

  seen(now: number): void {
    if (!(this.bornAt > 0)) this.bornAt = now
  }

  ended(at: number): void {
    this.endedAt = at
  }

  /** What a crash here lost is no matter. */
  forget(): void {
    this.endedAt = Number.NaN
  }

  /** Whether a bid sent at `at`, to be settled after `wait`, was sent before the crash and not settled. */
  took(at: number, wait: () => number, now: number): boolean {
    if (!(this.endedAt > 0)) return false
    this.seen(now)
    return at < this.bornAt && wait() > this.endedAt - at
  }

  knew(at: number): boolean {
    return at <= this.endedAt
  }
}
