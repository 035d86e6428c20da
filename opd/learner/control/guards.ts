/**
 * The guards of a supplier, which act faster than the multipliers can. At the start prices are lowered a little, and further
 * with each win received while no guard acts. While a guard acts, every bid is sent at its own price; afterwards prices begin
 * again as at the start.
 */
import type { Guard } from '../../shared/arms.ts'
import { halfWidth } from '../../shared/confidence.ts'
import { DelayedSums } from './delayed-sums.ts'
import type { Evidence } from './evidence.ts'
import { WinRateCusum } from './win-rate-cusum.ts'

/**
 * The lowest factor that is permitted, by the wins at lowered and explored prices since the start or since the last alarm. A win
 * at a bid's own price shows nothing about lower ones.
 */
const depths: readonly [wins: number, factor: number][] = [
  [0, 0.85],
  [15, 0.7],
  [40, 0],
]
/** With so many wins the lowest factor is the policy's own. */
const winsToEnd = depths.at(-1)![0]
/** Notices count as stopped after so many expected wins without a win. */
const dueBeforeSilence = 40
/** Wins at this node before `silence` may act, or a guard that acts may end. */
const winsBeforeGuards = 50
/** Expected wins for which a guard acts. Each alarm that follows before the start is over doubles them. */
const holdDue = 150
const mostDoublings = 5
/** Share of wins that may clear above the price sent, and the number of wins that it is measured over. */
const overShare = 0.2
const overWins = 100
/** A win below this share of the price sent was reported in another unit or currency, and such wins are no proof of a price. */
const tiny = 0.1
/**
 * Share of such wins that puts prices back. Where every auction pays the second price it was .27 at most (300 suppliers of 50
 * synthetic markets, seeds 31001-31050, median .09); a wrong unit makes it 1.
 */
const tinyShare = 0.5
/** Of the win rate's CUSUM: its memory in milliseconds, and the sum that is an alarm. */
const memory = 3 * 3_600_000
const alarm = 16

/** Bids that had the time to win since the last call, each weighted by the share of wins that its price is expected to keep. */
interface Matured {
  bids: number
  wins: number
}

export class Guards {
  /**
   * -0 is a double for V8, 0 is not. Where a field of a literal became a double with the first bids that matured, V8 compiled what makes
   * such an object again and again: with 3,000 suppliers the process took twice its time for 8 s.
   */
  private readonly state = {
    guard: 'start' as Guard,
    /** Wins at lowered and explored prices since the guard changed. */
    wins: 0,
    /** Wins ever that were reported to this node. */
    winsEver: 0,
    /** Wins that were expected since the last win. */
    due: -0,
    /** When the newest bid that won was sent. */
    newest: -0,
    /** Expected wins for which the guard still acts. */
    held: -0,
    doublings: 0,
    /** Share of recent wins that cleared above the price sent. */
    over: -0,
    /** Share of recent wins that cleared at a tiny part of the price sent. */
    under: -0,
    /** Wins that came after their bids had left `sums`. */
    late: 0,
  }
  /** Bids by the time at which they were sent: neither more traffic nor a long delay then looks like a fall. */
  private readonly sums = new DelayedSums()
  private readonly fall = new WinRateCusum(memory, alarm)

  get guard(): Guard {
    return this.state.guard
  }

  get wins(): number {
    return this.state.wins
  }

  get acts(): boolean {
    return this.guard !== 'none' && this.guard !== 'start'
  }

  /**
   * The lowest factor that is permitted now.
   *
   * @param minFactor of the policy and the floor, 0 to 1
   */
  lowest(minFactor: number): number {
    if (this.guard === 'none') return minFactor
    if (this.guard !== 'start') return 1
    // Called for each bid: a loop with an iterator takes five times as long.
    let step = depths.length - 1
    while (step >= 0 && this.state.wins < depths[step]![0]) step--
    const depth = step < 0 ? 1 : depths[step]![1]
    return depth > minFactor ? depth : minFactor
  }

  /** A guard that acts again before the start is over acts for twice as long. */
  private switchTo(guard: Guard): void {
    if (guard === this.guard) return
    const { state } = this
    if (guard === 'none') state.doublings = 0
    else if (guard !== 'start') {
      state.held = holdDue * 2 ** state.doublings
      state.doublings = Math.min(mostDoublings, state.doublings + 1)
    }
    state.guard = guard
    state.wins = 0
  }

  /** `due`: expected wins at the price sent. `bids`: the share of wins that this price is expected to keep. */
  exposed(due: number, bids: number, now: number, noticeTimeout: number): void {
    this.sums.addBid(due, bids, now, noticeTimeout)
  }

  /** Sums of other nodes, counted in the same slice as their wins: a burst would look like a fall otherwise. */
  exposedElsewhere(
    due: number,
    bids: number,
    sentAt: number,
    now: number,
    noticeTimeout: number,
  ): void {
    if (!this.sums.addBack(due, bids, 0, sentAt)) this.sums.addBid(due, bids, now, noticeTimeout)
  }

  /** When the oldest bids began that still wait for a win; Infinity: there are none. */
  get oldest(): number {
    return this.sums.oldest
  }

  /** Takes the bids that had the time to win. */
  mature(now: number, noticeTimeout: number): Matured {
    const { state, sums } = this
    const { dues, newer, bids, wins } = sums.takeDue(now - noticeTimeout, state.newest)
    const matured = { bids, wins: wins + state.late }
    state.late = 0
    // Only bids sent after the newest bid that won can be missing a notice because notices stopped.
    state.due += newer
    if (state.guard !== 'silence') state.held -= dues
    if (state.winsEver < winsBeforeGuards) return matured
    if (state.due > dueBeforeSilence) this.switchTo('silence')
    else if (this.acts && state.guard !== 'silence' && state.held <= 0) this.switchTo('start')
    return matured
  }

  /** Wins that are expected of so many bids by the win rate of the last hours; null: it is not known well enough. */
  expects(bids: number): number | null {
    return this.fall.expects(bids)
  }

  /** Whether the win rate fell. */
  compare({ bids, wins }: Matured, now: number): boolean {
    return this.fall.seen(bids, wins, now)
  }

  /** The win rate fell, of this supplier or of all. The present win rate becomes the reference. */
  dropped(): void {
    this.fall.begin()
    if (!this.acts) this.switchTo('drop')
  }

  /** A win that was reported to this node. `at`: when the bid was sent. */
  addWin(sentAt: number, sent: number, cleared: number, now: number, tried: boolean): void {
    const { state } = this
    const wins = Math.min(overWins, ++state.winsEver)
    state.over += ((cleared > sent * 1.005 ? 1 : 0) - state.over) / wins
    state.under += ((cleared < sent * tiny ? 1 : 0) - state.under) / wins
    this.received(1, tried ? 1 : 0, sentAt, now)
    const isImplausible = state.over > overShare || state.under > tinyShare
    if (state.winsEver > overWins && isImplausible && !this.acts) this.switchTo('cleared')
  }

  /** Wins that were reported to any node, `tried` of them at lowered and explored prices. */
  received(wins: number, tried: number, sentAt: number, now: number): void {
    if (!(wins > 0)) return
    const { state } = this
    state.wins += tried
    state.due = 0
    if (sentAt > state.newest && sentAt <= now) state.newest = sentAt
    if (!this.sums.addBack(0, 0, wins, sentAt)) state.late += wins
    if (state.guard === 'silence') this.switchTo('start')
    if (state.guard === 'start' && state.wins >= winsToEnd) this.switchTo('none')
  }

  /**
   * Acts if kept wins are below the floor with a probability of 99 %. The bound is valid at all times together, so the number
   * of calls does not matter. Returns whether it acted.
   */
  checkKept(evidence: Evidence, floor: number): boolean {
    if (this.acts || !(floor > 0)) return false
    const kept = keptAtMost(evidence)
    if (kept === null || kept >= floor) return false
    this.switchTo('kept')
    return true
  }

  saved() {
    return { state: { ...this.state }, fall: this.fall.saved(), sums: this.sums.saved() }
  }

  restoreGuards({ state, fall, sums }: ReturnType<Guards['saved']>): void {
    Object.assign(this.state, state)
    this.sums.restoreSums(sums)
    this.fall.restoreHours(fall)
  }

  /** The model returned a number that is not finite. */
  notFinite(): void {
    if (!this.acts) this.switchTo('number')
  }
}

/**
 * Upper bound of kept wins (two-sided 98 %) from notices alone: wins of each arm over those that the model expects at the
 * bids' own prices.
 */
function keptAtMost(evidence: Evidence): number | null {
  const sideOf = (side: 'optimised' | 'holdout') => {
    const wins = evidence.total(side, 'wins')
    const due = evidence.total(side, 'dueIn')
    const rate = wins / Math.max(1, evidence.total(side, 'bids'))
    return { wins, ratio: wins / due, variance: (1 - Math.min(0.99, rate)) / wins }
  }
  const [treated, holdout] = [sideOf('optimised'), sideOf('holdout')]
  if (!(treated.wins > 20 && holdout.wins > 20)) return null
  return (treated.ratio / holdout.ratio) * Math.exp(halfWidth([treated, holdout], 0.02))
}
