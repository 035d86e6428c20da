/**
 * The learner as it would have run: asked at each logged bid, taught by what really happened to it at its logged price,
 * in time order. What it expects of a bid never knows of that bid's own outcome.
 */
import {
  type BidFacts,
  createLearner,
  type Decision,
  type Learner,
  type Policy,
} from '../learner.ts'
import type { DecisionLine } from './line.ts'
import { match, reach } from './match.ts'
import type { Row } from './sums.ts'

export interface ReplayPolicy {
  mode: 'revenue' | 'margin'
  policy: Policy
  /** Whether the configuration names it, or defaults stand in. */
  from: 'file' | 'default'
}

const settleEvery = 250

/** Reproducible: one log gives one report. */
function source(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Chances by factor: as the model says, or, where it cannot be asked, along the power through the two it gave. */
function chances(
  learner: Learner,
  facts: BidFacts,
  decision: Decision,
  factor: number,
): (factor: number) => number {
  if (learner.chance !== undefined) return (f) => learner.chance!(facts, facts.inBa * f)
  const steep = steepness(decision, factor)
  return (f) => Math.min(1, decision.winIn * f ** steep)
}

/** How steeply chances fall with the factor, by the two that the model says of a bid. */
function steepness({ winIn, winOut }: Decision, factor: number): number {
  if (!(factor < 0.999 && winIn > 0 && winOut > 0)) return 1
  return Math.max(0, Math.min(20, Math.log(winOut / winIn) / Math.log(factor)))
}

/** Sent at its own price, whatever was decided. */
const unmoved = 0.999

/**
 * What was logged, as the learner may count it: the holdout as such; what went out at about the evaluated price as
 * treated; at its own price as a bid that shadow held up; at another as explored, which teaches the curve alone.
 */
function expose(
  learner: Learner,
  decision: Decision,
  line: DecisionLine,
  row: Row,
  now: number,
): Uint8Array {
  const logged = Math.min(1, line.out / line.in)
  const near = Math.abs(logged - row.priced / row.in) <= reach
  const held = logged > unmoved && !near
  decision.arm = line.arm === 'holdout' ? 'holdout' : near || held ? 'treated' : 'explored'
  if (line.arm !== 'holdout' && !held) decision.winOut = row.winLogged
  return learner.expose(decision, Math.min(line.in, line.out), now)
}

export class Replica {
  private readonly learners: Readonly<Record<'revenue' | 'margin', Learner>>
  private readonly random = source(1)
  private settled = 0
  /** Cleared over bid where the second price is paid, of the wins so far. */
  private readonly clearing = new Map<string, { cleared: number; bid: number }>()

  constructor(attributionWindow: number, create: typeof createLearner = createLearner) {
    this.learners = {
      revenue: create({ attributionWindow }),
      margin: create({ attributionWindow }),
    }
  }

  /** The clock of the log. */
  advance(now: number): void {
    if (now - this.settled < settleEvery) return
    this.settled = now
    this.learners.revenue.advance(now)
    this.learners.margin.advance(now)
  }

  decide(
    line: DecisionLine,
    { mode, policy }: ReplayPolicy,
    now: number,
    holds: boolean,
  ): { row: Row; features: Uint8Array } {
    const learner = this.learners[mode]
    const facts = { ...line.features, supplier: line.ssp, mode, inBa: line.in, floor: line.floor }
    // Whom the holdout takes is not evaluated: all figures are those of the bids that are priced.
    const asked = { ...policy, holdout: 0 }
    const decision = learner.decide(facts, asked, line.id, now, this.random)
    const lowest = Math.max(policy.minFactor ?? 0, line.floor / line.in)
    const factor = Math.min(1, Math.max(decision.factor, lowest))
    const winAt = chances(learner, facts, decision, factor)
    const logged = Math.min(1, line.out / line.in)
    const second = line.features.auction === 2
    const row: Row = {
      arm: line.arm,
      in: line.in,
      out: line.out,
      priced: line.in * factor,
      winIn: winAt(1),
      winPriced: winAt(factor),
      winLogged: winAt(logged),
      match: match(line, factor, holds),
      clears: line.in * factor * (second ? this.clears(line.ssp) : 1),
      second,
    }
    return { row, features: expose(learner, decision, line, row, now) }
  }

  won(
    mode: ReplayPolicy['mode'],
    ssp: string,
    row: Row,
    features: Uint8Array,
    cleared: number,
    now: number,
  ): void {
    if (row.second && row.out > 0) {
      const sums = this.clearing.get(ssp) ?? { cleared: 0, bid: 0 }
      sums.cleared += Math.min(cleared, row.out)
      sums.bid += row.out
      this.clearing.set(ssp, sums)
    }
    this.learners[mode].win(features, cleared, now)
  }

  withdraw(mode: ReplayPolicy['mode'], features: Uint8Array, now: number): void {
    this.learners[mode].withdraw(features, now)
  }

  private clears(ssp: string): number {
    const sums = this.clearing.get(ssp)
    return sums === undefined ? 1 : sums.cleared / sums.bid
  }
}
