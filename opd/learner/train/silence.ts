/** Detects that notices have stopped: bids without a notice are then not known to be lost. */

/** Notices count as stopped after so many expected wins without a win. */
const dueBeforeStop = 15
/** Wins that must have come before. */
const winsBeforeStop = 50
/** Milliseconds without a win, at least: exposures settle in bursts. */
const leastPause = 5000

export class Silence {
  /** Wins ever. */
  wins = 0
  /** Expected wins of the exposures that settled since the last win. */
  private due = 0
  private wonAt = 0

  endSilence(now: number): void {
    this.wins++
    this.due = 0
    if (now > this.wonAt) this.wonAt = now
  }

  /** Exposures with so many expected wins settled, which were due at `dueAt`. Those due before the last win do not count. */
  settled(wins: number, dueAt: number): void {
    if (dueAt > this.wonAt) this.due += wins
  }

  /** Whether notices have stopped, or take much longer than before. */
  hasStopped(now: number): boolean {
    if (this.wins < winsBeforeStop || this.due < dueBeforeStop) return false
    return now - this.wonAt > leastPause
  }

  saved(): number[] {
    return [this.wins, this.due, this.wonAt]
  }

  restoreCounts([wins = 0, due = 0, wonAt = 0]: readonly number[]): void {
    Object.assign(this, { wins, due, wonAt })
  }
}
