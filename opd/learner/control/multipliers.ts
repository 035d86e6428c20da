/**
 * The multipliers of one supplier and mode: out = argmax (theta in + lambda - p) W(p). theta - 1 is the price of kept spend,
 * lambda that of kept wins, in units of the mean bid. Both follow the gradient of the dual problem: each decision changes them
 * by the distance between the goal and what the model, corrected by measurement, expects to keep.
 */

import type { Policy } from '../../learner-types.ts'
import type { Mode } from '../../shared/arms.ts'
import type { Losses } from './calibration.ts'
import type { Evidence } from './evidence.ts'

/** Change of the logarithm of a multiplier by one decision, for a gap of 1. It settles within some 350 decisions. */
const gain = 0.1
/** Bounds of a multiplier. From the lower one it rises again in time; at the upper one bids keep their own price. */
const least = 0.02
const most = 54
/** Upper bound in margin mode. */
const mostMargin = 200
/**
 * The goal is above the floor by a tenth of a point and by two and a half standard errors of what is kept, at most .6 of what
 * the floor allows to lose. A floor is a promise, and without millions of bids kept wins are known to half a point only.
 */
const slack = 0.001
const slackErrors = 2.5
const slackMost = 0.6
/** The goal rises by what was missed, at most by this. It does not fall when too much was kept. */
const makeUp = 0.006
const startSpend = 1.5
const startWins = 0.1
const startMargin = 1
const meanHorizon = 2000
/** A bid above so many mean bids has a smaller weight in the mean. A price of 1e8 would determine lambda for days. */
const dearest = 50
/** Decisions before that limit applies. */
const young = 20
/** Bound of the gap of one bid, in mean bids. With a lower bound, bids of high prices would lose too much. */
const largest = 12

/**
 * State of a constraint: the share that was kept, its standard error, and the true loss over the expected one with a raised and
 * with the usual theta.
 */
export interface Standing {
  kept: number
  error: number
  raised: number
  usual: number
}

/** `all`: of all suppliers. The error is theirs, because one supplier has too few bids to estimate it. */
export const standingOf = ({ kept, raised, usual }: Losses, all: Losses): Standing => ({
  kept,
  error: all.deviation,
  raised: raised.at,
  usual,
})

const within = (value: number, low: number, high: number) =>
  value > low ? (value < high ? value : high) : low

/** A treated or explored bid: its own price and the decided one (CPM), and the win probabilities at both. */
export interface Decided {
  inBa: number
  out: number
  winIn: number
  winOut: number
  raised: boolean
}

export class Multipliers {
  /** theta - 1, and lambda over the mean bid, in revenue mode. */
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

  /** Starts with the multipliers of another supplier. */
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

  /** `limited`: a guard limits prices, so what is kept now is no reason to lower the multipliers (anti-windup). */
  decided(
    policy: Policy,
    mode: Mode,
    bid: Decided,
    evidence: Evidence,
    { wins, spend }: Record<'wins' | 'spend', Standing>,
    limited: boolean,
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
      this.margin = moved(this.margin, gap, limited, 1e-3, mostMargin)
      return
    }
    if (free(policy)) return
    const minWins = policy.minWinRate ?? 0.97
    const minSpend = policy.minSpend ?? minWins
    const lost = winIn - winOut
    const roomWins = (1 - goal(minWins, wins)) * winIn - lost * (raised ? wins.raised : wins.usual)
    const roomSpend =
      ((1 - goal(minSpend, spend)) * winIn - lost * (raised ? spend.raised : spend.usual)) * inBa
    this.wins = minWins > 0 ? moved(this.wins, roomWins / means[1]!, limited, least) : 0
    this.spend = minSpend > 0 ? moved(this.spend, roomSpend / means[2]!, limited, least) : 0
  }
}

/** Whether the policy has no floor: pure margin. */
export const free = ({ minWinRate, minSpend }: Policy) =>
  minWinRate !== undefined && minWinRate <= 0 && (minSpend ?? minWinRate) <= 0

function goal(floor: number, { kept, error }: Standing): number {
  const aim = Math.min(1, floor + slack + Math.min(slackErrors * error, (1 - floor) * slackMost))
  return Math.min(0.9995, aim + within(aim - kept, 0, makeUp))
}

/** The margin share that the model must expect so that the realized one is the target. It makes up for earlier differences. */
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

/** `surplus` above 0: more is kept than required. If the result is not finite, it is the upper bound, where bids keep their price. */
function moved(
  multiplier: number,
  surplus: number,
  limited: boolean,
  low: number,
  high = most,
): number {
  if (limited && surplus > 0) return multiplier
  const next = Math.max(low, multiplier) * Math.exp(-gain * within(surplus, -largest, largest))
  return Number.isFinite(next) ? within(next, low, high) : high
}
