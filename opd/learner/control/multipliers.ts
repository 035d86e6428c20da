/**
 * The multipliers of one supplier and mode: out = argmax (theta in + lambda - p) W(p). theta - 1 prices kept spend,
 * lambda kept wins, in units of the mean bid. Both climb the dual: each decision moves them by how far the model's own
 * expectation, corrected by the holdout, lies from the goal; the goal moves a little with what was missed before.
 */

import type { Mode } from '../../pricing/arms.ts'
import type { Policy } from '../types.ts'
import type { Losses } from './calibration.ts'
import type { Evidence } from './kept.ts'

/** e-folds of a multiplier for a gap of 1, a decision. With the usual slope a move takes 350 decisions. */
const gain = 0.1
/** A multiplier never falls below: from there it is up again in time. Nor above: the bid's own price. */
const least = 0.02
const most = 54
const mostMargin = 200
/**
 * Aimed at above the floors: a little, and two and a half standard errors of what is kept. A floor is a promise, and before
 * millions of bids what is kept is not known to better than half a point.
 */
const slack = 0.001
const slackErrors = 2.5
const slackMost = 0.6
/** What was kept too little over the horizon is made up for, within this. What was kept too much is not spent. */
const makeUp = 0.006
const startSpend = 1.5
const startWins = 0.1
const startMargin = 1
const meanHorizon = 2000
/** A bid of a higher price, in mean bids, counts for less of the mean: one of 1e8 would set the unit of lambda for days. */
const dearest = 50
const young = 20
/** A gap of one bid, in mean bids. With a lower limit bids of high prices would be given up. */
const largest = 12

/** State of a constraint: what was kept, its standard error, and true over expected loss with raised and with usual theta. */
export interface Standing {
  kept: number
  error: number
  raised: number
  usual: number
}

/** `all`: of all suppliers; the error is theirs, because the bids of one supplier are too few to estimate it. */
export const standingOf = ({ kept, raised, usual }: Losses, all: Losses): Standing => ({
  kept,
  error: all.deviation,
  raised: raised.at,
  usual,
})

const within = (value: number, low: number, high: number) =>
  value > low ? (value < high ? value : high) : low

/** A bid of the treated or explored: its own price and the decided one, CPM, and their chances. */
export interface Decided {
  inBa: number
  out: number
  winIn: number
  winOut: number
  raised: boolean
}

export class Controller {
  /** theta - 1 and lambda over the mean bid, where the constraint is one of keeping. */
  spend = startSpend
  wins = startWins
  /** lambda over the mean bid in margin mode. */
  margin = startMargin
  /** Means over decisions: of in, W(in), W(in) in, W(out) in. */
  private readonly means = new Float64Array(4)
  private seen = 0

  theta(policy: Policy, mode: Mode): number {
    if (mode === 'margin') return 1 - (policy.targetMargin ?? 0.15)
    return free(policy) ? 1 : 1 + this.spend
  }

  /** CPM. */
  lambda(policy: Policy, mode: Mode): number {
    if (mode === 'margin') return this.margin * this.means[0]!
    return free(policy) ? 0 : this.wins * this.means[0]!
  }

  /** Multipliers of another supplier to begin with. */
  startFrom({ spend, wins, margin }: { spend: number; wins: number; margin: number }): void {
    Object.assign(this, { spend, wins, margin })
  }

  saved(): number[] {
    return [this.seen, ...this.means]
  }

  restore([seen = 0, ...means]: readonly number[]): void {
    this.seen = seen
    this.means.set(means)
  }

  /** `shallow`: prices are held up by a guard, so what is kept now is no reason to lower the multipliers. */
  decided(
    policy: Policy,
    mode: Mode,
    bid: Decided,
    evidence: Evidence,
    { wins, spend }: Record<'wins' | 'spend', Standing>,
    shallow: boolean,
  ): void {
    const { inBa, out, winIn, winOut, raised } = bid
    const { means } = this
    this.seen = Math.min(meanHorizon, this.seen + 1)
    const dear = this.seen < young ? 1 : Math.min(1, (dearest * means[0]!) / inBa)
    const share = dear / this.seen
    means[0]! += (inBa - means[0]!) * share
    means[1]! += (winIn - means[1]!) * share
    means[2]! += (winIn * inBa - means[2]!) * share
    means[3]! += (winOut * inBa - means[3]!) * share
    if (mode === 'margin') {
      const target = policy.targetMargin ?? 0.15
      const gap = (marginGoal(evidence, target) * winOut * inBa - winOut * (inBa - out)) / means[3]!
      // too little margin is too much kept
      this.margin = moved(this.margin, gap, shallow, 1e-3, mostMargin)
      return
    }
    if (free(policy)) return
    const minWins = policy.minWinRate ?? 0.97
    const minSpend = policy.minSpend ?? minWins
    const lost = winIn - winOut
    const roomWins = (1 - goal(minWins, wins)) * winIn - lost * (raised ? wins.raised : wins.usual)
    const roomSpend =
      ((1 - goal(minSpend, spend)) * winIn - lost * (raised ? spend.raised : spend.usual)) * inBa
    this.wins = minWins > 0 ? moved(this.wins, roomWins / means[1]!, shallow, least) : 0
    this.spend = minSpend > 0 ? moved(this.spend, roomSpend / means[2]!, shallow, least) : 0
  }
}

export const free = ({ minWinRate, minSpend }: Policy) =>
  minWinRate !== undefined && minWinRate <= 0 && (minSpend ?? minWinRate) <= 0

function goal(floor: number, { kept, error }: Standing): number {
  const aim = Math.min(1, floor + slack + Math.min(slackErrors * error, (1 - floor) * slackMost))
  return Math.min(0.9995, aim + within(aim - kept, 0, makeUp))
}

/** The modelled margin share that makes the realised one the target, and makes up for what it was before. */
function marginGoal(evidence: Evidence, target: number): number {
  const get = (name: 'wins' | 'spend' | 'spendDue' | 'margin' | 'marginDue') =>
    evidence.total('optimised', name)
  const wins = get('wins')
  if (!(wins > 0 && get('spend') > 0 && get('marginDue') > 0)) return target
  const share = get('margin') / get('spend')
  const expected = get('marginDue') / get('spendDue')
  // Both are uncertain with few wins.
  const weight = wins / (wins + 200)
  const short = within(target - share, -0.03, 0.03) * weight
  const ratio = within(1 + (share / expected - 1) * weight, 0.7, 1.4)
  return (target + short) / ratio
}

/** `surplus` above 0: more is kept than required. If the result is not finite, the multiplier is the highest: that is safe. */
function moved(
  multiplier: number,
  surplus: number,
  shallow: boolean,
  low: number,
  high = most,
): number {
  if (shallow && surplus > 0) return multiplier
  const next = Math.max(low, multiplier) * Math.exp(-gain * within(surplus, -largest, largest))
  return Number.isFinite(next) ? within(next, low, high) : high
}
