/**
 * What keeps a supplier from harm faster than the controller can: prices start shallow and deepen by wins received while
 * every guard is quiet; a guard that acts puts the bid's own price in place, and afterwards prices start shallow again.
 */
import type { Guard } from '../../pricing/arms.ts'
import { halfWidth } from '../../pricing/confidence.ts'
import { DelayedSums } from './delayed-sums.ts'
import type { Evidence } from './kept.ts'
import { WinRateCusum } from './win-rate-cusum.ts'

/** The lowest factor, by wins received since the start or the last alarm. */
const depths: readonly [wins: number, factor: number][] = [
  [0, 0.95],
  [60, 0.9],
  [150, 0.8],
  [300, 0.65],
  [500, 0],
]
const deep = depths.at(-1)![0]
/** Wins that were due since the last one came, before notices count as stopped; and wins that must have come ever. */
const dueBeforeSilence = 40
const winsBeforeGuards = 50
/** Expected wins that an alarm holds prices up for; doubled by each that follows before prices are deep again. */
const holdDue = 150
const mostDoublings = 5
/** Share of wins that cleared above the price sent, and wins before it is judged. */
const overShare = 0.2
const overWins = 100
/** Of the win rate's reference, milliseconds. */
const memory = 3 * 3_600_000
const alarm = 16

/** What has matured since the last look: bids weighted by the share they keep, and wins. */
interface Matured {
  bids: number
  wins: number
}

export class Guards {
  guard: Guard = 'start'
  /** Milliseconds; when the guard changed. */
  since = 0
  /** Wins since the start, or since the last alarm was over. */
  wins = 0
  winsEver = 0
  /** With those of other nodes. */
  winsKnown = 0
  /** How often one acted. */
  readonly alarms: Partial<Record<Guard, number>> = {}
  /** Expected wins since the last, and when the newest bid was sent that won. */
  private due = 0
  private newest = 0
  private held = 0
  private doublings = 0
  private over = 0
  /** By when the bids were sent, so that neither a ramp of traffic nor a long delay is a fall. */
  private readonly sums = new DelayedSums()
  private late = 0
  private readonly fall = new WinRateCusum(memory, alarm)

  get acts(): boolean {
    return this.guard !== 'none' && this.guard !== 'start'
  }

  /** Prices are held up, by an alarm or by the steps. */
  get shallow(): boolean {
    return this.guard !== 'none'
  }

  lowest(minFactor: number): number {
    if (this.guard === 'none') return minFactor
    if (this.guard !== 'start') return 1
    // Asked for each bid: a loop with an iterator takes five times as long.
    let step = depths.length - 1
    while (step >= 0 && this.wins < depths[step]![0]) step--
    const depth = step < 0 ? 1 : depths[step]![1]
    return depth > minFactor ? depth : minFactor
  }

  /** An alarm that follows another before prices are deep again holds for twice as long. */
  private turn(guard: Guard, now: number): void {
    if (guard === this.guard) return
    if (guard === 'none') this.doublings = 0
    else if (guard !== 'start') {
      this.alarms[guard] = (this.alarms[guard] ?? 0) + 1
      this.held = holdDue * 2 ** this.doublings
      this.doublings = Math.min(mostDoublings, this.doublings + 1)
    }
    this.guard = guard
    this.since = now
    this.wins = 0
  }

  /** `due`: expected wins at the price sent; `bids`: the share of wins that it is expected to keep, or a sum of those. */
  exposed(due: number, bids: number, now: number, patience: number): void {
    this.sums.add(due, bids, now, patience)
  }

  /** What others sent: in the slice that their wins are counted in, or a burst of one would look like a fall. */
  exposedElsewhere(due: number, bids: number, at: number, now: number, patience: number): void {
    if (!this.sums.addBack(due, bids, 0, at)) this.sums.add(due, bids, now, patience)
  }

  /** What has waited long enough. */
  mature(now: number, patience: number): Matured {
    const { dues, newer, bids, wins } = this.sums.take(now - patience, this.newest)
    const matured = { bids, wins: wins + this.late }
    this.late = 0
    // of bids sent after the newest that won: whatever notices take, those before are not missing
    this.due += newer
    if (this.guard !== 'silence') this.held -= dues
    if (this.winsEver < winsBeforeGuards) return matured
    if (this.due > dueBeforeSilence) this.turn('silence', now)
    else if (this.acts && this.guard !== 'silence' && this.held <= 0) this.turn('start', now)
    return matured
  }

  /** `usual`: what the rate of all suppliers does; a fall of all is judged by `fallen`. */
  compare({ bids, wins }: Matured, usual: number, now: number): boolean {
    return this.fall.seen(bids, wins, usual, now)
  }

  /** The win rate has fallen, here or everywhere; what it is now is the new reference. */
  fell(now: number): void {
    this.fall.begin()
    if (!this.acts) this.turn('drop', now)
  }

  /** `at`: when its bid was sent. */
  won(at: number, sent: number, cleared: number, now: number): void {
    this.winsEver++
    this.over += ((cleared > sent * 1.005 ? 1 : 0) - this.over) / Math.min(overWins, this.winsEver)
    this.received(1, at, now)
    if (this.winsEver > overWins && this.over > overShare && !this.acts) this.turn('cleared', now)
  }

  /** Wins, by way of other nodes as well. */
  received(wins: number, at: number, now: number): void {
    if (!(wins > 0)) return
    this.wins += wins
    this.winsKnown += wins
    this.due = 0
    if (at > this.newest && at <= now) this.newest = at
    // later than it was waited for
    if (!this.sums.addBack(0, 0, wins, at)) this.late += wins
    if (this.guard === 'silence') this.turn('start', now)
    if (this.guard === 'start' && this.wins >= deep) this.turn('none', now)
  }

  /** P(kept < floor) > .99, however often one looks: prices go up until there is new evidence. */
  judge(evidence: Evidence, floor: number, now: number): boolean {
    if (this.acts || !(floor > 0)) return false
    const kept = keptAtMost(evidence)
    if (kept === null || kept >= floor) return false
    this.turn('kept', now)
    return true
  }

  saved() {
    const { guard, since, wins, winsEver, winsKnown, alarms, held, doublings, over } = this
    const { due, newest, late } = this
    const sums = this.sums.saved()
    const fall = this.fall.saved()
    const counts = { winsEver, winsKnown, held, doublings, over, due, newest, late }
    return { guard, since, wins, alarms, fall, sums, ...counts }
  }

  restore({ fall, alarms, sums, ...rest }: ReturnType<Guards['saved']>): void {
    Object.assign(this, rest)
    this.sums.restore(sums)
    Object.assign(this.alarms, alarms)
    this.fall.restore(fall)
  }

  /** A number that is none came out of the model. */
  broken(now: number): void {
    if (!this.acts) this.turn('number', now)
  }
}

/** Upper bound of kept wins by notices alone, each arm relative to the model at the bids' own prices; two-sided 98 %. */
function keptAtMost(evidence: Evidence): number | null {
  const of = (side: 'optimised' | 'holdout') => {
    const wins = evidence.total(side, 'wins')
    const due = evidence.total(side, 'dueIn')
    const rate = wins / Math.max(1, evidence.total(side, 'bids'))
    return { wins, ratio: wins / due, variance: (1 - Math.min(0.99, rate)) / wins }
  }
  const [treated, holdout] = [of('optimised'), of('holdout')]
  if (!(treated.wins > 20 && holdout.wins > 20)) return null
  return (treated.ratio / holdout.ratio) * Math.exp(halfWidth([treated, holdout], 0.02))
}
