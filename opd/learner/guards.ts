/**
 * What keeps a supplier from harm faster than the controller can: prices start shallow and deepen by wins received while
 * every guard is quiet; a guard that acts puts the bid's own price in place, and the way back is from shallow again.
 */
import { radius } from '../trust.ts'
import type { Evidence } from './evidence.ts'
import { Maturing } from './maturing.ts'

/** Why prices are held up: `start` is no alarm. */
export type Guard = 'none' | 'start' | 'silence' | 'drop' | 'kept' | 'cleared' | 'number'

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
/** A model of fewer wins expects too many: its error is no fall. */
const winsBeforeDrop = 300
/**
 * CUSUM (Page 1954) of notices per bid against what the model and the same hour before expect: the log likelihood
 * ratio of a fall to `fallen`, neutral at a fall of 10 %. Alone it would be wrong once in a million expected wins.
 */
const fallen = 0.8
const alarm = 10
/** Expected wins that an alarm holds prices up for; doubled by each that follows soon, at most this often. */
const holdDue = 150
const holdDoublings = 5
/** Share of wins that cleared above the price sent, and wins before it says something. */
const overShare = 0.2
const overWins = 100

export class Guards {
  guard: Guard = 'start'
  /** Milliseconds; when the guard changed. */
  since = 0
  /** Wins since the start, or since the last alarm was over. */
  wins = 0
  winsEver = 0
  /** How often one acted. */
  readonly alarms: Partial<Record<Guard, number>> = {}
  /** Expected wins since the last, and when the newest bid was sent that won. */
  private due = 0
  private newest = 0
  private cusum = 0
  private held = 0
  private doublings = 0
  private over = 0
  /** Expected wins, and wins, by when their bids were sent: a fall of traffic is no fall of wins. */
  private readonly maturing = new Maturing()
  private readonly arrived = new Maturing()
  /** Wins and expected wins by hour of the day: what the model does not know of the hour. */
  readonly hourWins = new Float64Array(24)
  readonly hourDue = new Float64Array(24)
  private hour = -1

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
    let depth = 1
    for (const [wins, factor] of depths) if (this.wins >= wins) depth = factor
    return depth > minFactor ? depth : minFactor
  }

  private turn(guard: Guard, now: number): void {
    if (guard === this.guard) return
    if (guard !== 'none' && guard !== 'start') {
      this.alarms[guard] = (this.alarms[guard] ?? 0) + 1
      if (this.guard === 'none') this.doublings = 0
      else if (!this.acts) this.doublings = Math.min(holdDoublings, this.doublings + 1)
      this.held = holdDue * 2 ** this.doublings
    }
    this.guard = guard
    this.since = now
    this.wins = 0
    this.cusum = 0
  }

  exposed(winOut: number, now: number, patience: number): void {
    this.maturing.add(winOut, now, patience)
    this.arrived.add(0, now, patience)
  }

  /** What others sent: in the slice that their wins are counted in, or a burst of one would look like a fall. */
  told(due: number, at: number, now: number, patience: number): void {
    if (!this.maturing.addBack(due, at)) this.exposed(due, now, patience)
  }

  /** What has waited long enough was due. */
  advance(now: number, patience: number): void {
    const due = this.maturing.take(now - patience, this.newest)
    const wins = this.arrived.take(now - patience)
    if (due <= 0) return
    const hour = Math.floor(now / 3_600_000) % 24
    if (hour !== this.hour) this.turnHour(hour)
    const expected = due * this.usual(hour)
    this.hourDue[hour]! += due
    // of bids sent after the newest that won: whatever notices take, those before are not missing
    this.due += this.maturing.newer * this.usual(hour)
    this.cusum += expected * (1 - fallen)
    this.credit(wins)
    if (this.guard !== 'silence') this.held -= expected
    if (this.winsEver < winsBeforeGuards) return
    if (this.due > dueBeforeSilence) this.turn('silence', now)
    else if (this.cusum > alarm && !this.acts && this.winsEver >= winsBeforeDrop)
      this.turn('drop', now)
    else if (this.acts && this.guard !== 'silence' && this.held <= 0) this.turn('start', now)
  }

  private credit(wins: number): void {
    this.cusum = Math.max(0, this.cusum + wins * Math.log(fallen))
  }

  /** Wins per expected win at this hour on the days before, held near 1 by how few they are. */
  private usual(hour: number): number {
    const ratio = (this.hourWins[hour]! + 200) / (this.hourDue[hour]! + 200)
    return ratio > 0.7 ? (ratio < 1.2 ? ratio : 1.2) : 0.7
  }

  private turnHour(hour: number): void {
    this.hour = hour
    this.hourWins[hour]! /= 2
    this.hourDue[hour]! /= 2
  }

  /** `at`: when its bid was sent. */
  won(at: number, sent: number, cleared: number, now: number): void {
    this.winsEver++
    this.over += ((cleared > sent * 1.005 ? 1 : 0) - this.over) / Math.min(overWins, this.winsEver)
    this.heard(1, at, now)
    if (this.winsEver > overWins && this.over > overShare && !this.acts) this.turn('cleared', now)
  }

  /** Wins, by way of other nodes as well. */
  heard(wins: number, at: number, now: number): void {
    if (wins <= 0) return
    this.wins += wins
    this.due = 0
    if (at > this.newest && at <= now) this.newest = at
    if (this.hour >= 0) this.hourWins[this.hour]! += wins
    // later than it was waited for
    if (!this.arrived.addBack(wins, at)) this.credit(wins)
    if (this.guard === 'silence') this.turn('start', now)
    if (this.guard === 'start' && this.wins >= deep) this.turn('none', now)
  }

  /** P(kept < floor) > .99, however often one looks: prices go up until there is new evidence. */
  judge(evidence: Evidence, floor: number, now: number): boolean {
    if (this.acts || !(floor > 0)) return false
    const kept = measured(evidence)
    if (kept === null || kept.upper >= floor) return false
    this.turn('kept', now)
    return true
  }

  saved() {
    const { guard, since, wins, winsEver, alarms, held, doublings, over } = this
    const hours = [...this.hourWins, ...this.hourDue]
    return { guard, since, wins, winsEver, alarms, held, doublings, over, hours }
  }

  restore({ hours, alarms, ...rest }: ReturnType<Guards['saved']>): void {
    Object.assign(this, rest)
    Object.assign(this.alarms, alarms)
    this.hourWins.set(hours.slice(0, 24))
    this.hourDue.set(hours.slice(24))
  }

  /** A number that is none came out of the model. */
  broken(now: number): void {
    if (!this.acts) this.turn('number', now)
  }
}

/** Kept wins by notices alone, each arm relative to the model at the bids' own prices; two-sided 98 %. */
function measured(evidence: Evidence): { at: number; upper: number } | null {
  const of = (side: 'optimised' | 'holdout') => {
    const wins = evidence.total(side, 'wins')
    const due = evidence.total(side, 'dueIn')
    const rate = wins / Math.max(1, evidence.total(side, 'bids'))
    return { wins, ratio: wins / due, variance: (1 - Math.min(0.99, rate)) / wins }
  }
  const [treated, holdout] = [of('optimised'), of('holdout')]
  if (!(treated.wins > 20 && holdout.wins > 20)) return null
  const at = treated.ratio / holdout.ratio
  return { at, upper: at * Math.exp(radius([treated, holdout], 0.02)) }
}
