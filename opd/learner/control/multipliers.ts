/**
 * The multipliers of one supplier and mode: out = argmax (theta in + lambda - p) W(p). theta - 1 is the price of kept spend,
 * lambda that of kept wins, in units of the mean bid. Both follow the gradient of the dual problem: each decision changes them
 * by the distance between the goal and what the model, corrected by measurement, expects to keep.
 */

import type { Policy } from '../../learner-types.ts'
import type { Mode } from '../../shared/arms.ts'
import type { Multiple } from './calibration.ts'
import type { Evidence } from './evidence.ts'

/**
 * Change of the logarithm of a multiplier by one decision that loses twice the permitted share: at the start, and later. In margin
 * mode: for a gap of 1.
 */
const [gainFirst, gainLast, gainFalls] = [0.012, 0.003, 300]
const gainMargin = 0.1
/** A smaller permitted share counts as this one: a floor of 1 permits nothing. */
const leastShare = 0.002
/**
 * Bounds of a multiplier. From the lower one it rises again within some hundred decisions, from .02 it took more than a thousand;
 * at the upper one bids keep their own price.
 */
const least = 0.1
const most = 54
/** Upper bound in margin mode. */
const mostMargin = 200
/**
 * A floor is a promise about all bids of a long time. What was lost is counted with so many standard errors of its multiple.
 * What is left of the permitted loss, or was lost beyond it, is made up for within a share of the bids so far, and at least so
 * many bids: sooner, each new estimate of the multiple would stop prices, or let them fall at once. The loss that may be expected
 * of a bid, with the same errors, is at most so many times the permitted one.
 */
const [errors, madeUpIn, madeUpLeast, mostAllowed] = [1.2, 0.6, 500, 1.4]
/** Decisions that are counted. */
const horizon = 50_000
/** Most bids keep their price at first. */
const startSpend = 3
const startWins = 1
const startMargin = 1
const meanHorizon = 2000
/** A bid above so many mean bids has a smaller weight in the mean. A price of 1e8 would determine lambda for days. */
const dearest = 50
/** Decisions before that limit applies. */
const young = 20
/** Bound of the change of a logarithm by one bid. With a lower bound, bids of high prices would lose too much. */
const largest = 1.2

/** What is known of the loss by lower prices. */
export interface Known {
  /** The true loss over the expected one. */
  wins: Multiple
  spend: Multiple
  /** Share of the permitted loss that may be used: it grows with the wins at lower prices. */
  trust: number
}

const within = (value: number, low: number, high: number) =>
  value > low ? (value < high ? value : high) : low

/** A treated or explored bid: its own price and the decided one (CPM), and the win probabilities at both. */
export interface Decided {
  inBa: number
  out: number
  winIn: number
  winOut: number
  /** The price is random. Multipliers do not change it, so its loss does not move them. */
  explored: boolean
}

/**
 * What lower prices lose of wins or spend. Every bid counts by its expected wins over their mean at that time, because a model
 * without a fit may expect ten times the wins that there are.
 */
class Ledger {
  private base = 0
  private lost = 0

  /** Expected wins (spend) of a bid at its own price, and what is lost of them, over the mean of expected wins. */
  addLoss(base: number, lost: number): void {
    this.base = this.base * (1 - 1 / horizon) + base
    this.lost = this.lost * (1 - 1 / horizon) + lost
  }

  /**
   * The share of a bid's wins (spend) that may be lost: `permitted` of all, more while less was lost so far, and less while more
   * was.
   */
  allowed(permitted: number, { mean, deviation }: Multiple): number {
    const { base, lost } = this
    const careful = mean + errors * deviation
    const by = (permitted * base - careful * lost) / Math.max(madeUpLeast, madeUpIn * base)
    return within(permitted + by, 0, (mostAllowed * permitted * mean) / careful)
  }

  saved() {
    const { base, lost } = this
    return { base, lost }
  }
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
  private decisions = 0
  private readonly ledgerWins = new Ledger()
  private readonly ledgerSpend = new Ledger()

  theta(policy: Policy, mode: Mode): number {
    if (mode === 'margin') return 1 - (policy.targetMargin ?? 0.15)
    return free(policy) ? 1 : 1 + this.spend
  }

  /** CPM. */
  lambda(policy: Policy, mode: Mode): number {
    if (mode === 'margin') return this.margin * this.means[0]!
    return free(policy) ? 0 : this.wins * this.means[0]!
  }

  saved() {
    const { spend, wins, margin, seen, decisions, means, ledgerWins, ledgerSpend } = this
    const numbers = { spend, wins, margin, seen, decisions }
    return { numbers, means: [...means], ledgers: [ledgerWins.saved(), ledgerSpend.saved()] }
  }

  restoreMultipliers({ numbers, means, ledgers }: ReturnType<Multipliers['saved']>): void {
    Object.assign(this, numbers)
    this.means.set(means)
    Object.assign(this.ledgerWins, ledgers[0])
    Object.assign(this.ledgerSpend, ledgers[1])
  }

  /** `limited`: a guard limits prices, so what is kept now is no reason to lower the multipliers (anti-windup). */
  decided(
    policy: Policy,
    mode: Mode,
    bid: Decided,
    evidence: Evidence,
    { wins, spend, trust }: Known,
    limited: boolean,
  ): void {
    const { inBa, out, winIn, winOut } = bid
    const { means, ledgerWins, ledgerSpend } = this
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
      this.margin = moved(this.margin, gap, limited, 1e-3, mostMargin, gainMargin)
      return
    }
    if (free(policy)) return
    const minWins = policy.minWinRate ?? 0.97
    const minSpend = policy.minSpend ?? minWins
    this.decisions++
    const [ofMean, ofMeanSpend] = [winIn / means[1]!, (winIn * inBa) / means[2]!]
    const lost = winIn > 0 ? 1 - winOut / winIn : 0
    ledgerWins.addLoss(ofMean, ofMean * lost)
    ledgerSpend.addLoss(ofMeanSpend, ofMeanSpend * lost)
    if (bid.explored) return
    const [permittedWins, permittedSpend] = [1 - minWins, 1 - minSpend]
    const mayWins = trust * ledgerWins.allowed(permittedWins, wins)
    const maySpend = trust * ledgerSpend.allowed(permittedSpend, spend)
    const roomWins = (ofMean * (mayWins - wins.mean * lost)) / (permittedWins + leastShare)
    const roomSpend = (ofMeanSpend * (maySpend - spend.mean * lost)) / (permittedSpend + leastShare)
    const by = gainLast + (gainFirst * gainFalls) / (gainFalls + this.decisions)
    this.wins = minWins > 0 ? moved(this.wins, roomWins, limited, least, most, by) : 0
    this.spend = minSpend > 0 ? moved(this.spend, roomSpend, limited, least, most, by) : 0
  }
}

/**
 * Whether a policy has no floor: pure margin.
 *
 * @param policy of the integration
 */
export const free = ({ minWinRate, minSpend }: Policy) =>
  minWinRate !== undefined && minWinRate <= 0 && (minSpend ?? minWinRate) <= 0

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
  high: number,
  gain: number,
): number {
  if (limited && surplus > 0) return multiplier
  const next = Math.max(low, multiplier) * Math.exp(within(-gain * surplus, -largest, largest))
  return Number.isFinite(next) ? within(next, low, high) : high
}
