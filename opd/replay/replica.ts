/**
 * Runs a learner over a decision log in time order. It decides each logged bid before it learns the outcome, which is the
 * outcome at the logged price.
 */

import { mulberry32 } from '../base/random.ts'
import {
  createLearner,
  type Decision,
  type Learner,
  type LearnerOptions,
  type Policy,
} from '../learner.ts'
import type { Mode } from '../shared/arms.ts'
import type { Row } from './estimates.ts'
import type { DecisionLine } from './line.ts'
import { match, reach } from './match.ts'

export interface ReplayPolicy {
  mode: Mode
  policy: Policy
  /** From the configuration file, or the defaults. */
  from: 'file' | 'default'
}

export type CreateLearner = (options: LearnerOptions) => Learner

/** Milliseconds between two calls of `Learner.advance`. */
const advanceEvery = 250

/** At a higher factor a bid counts as sent at its own price. */
const unchangedFactor = 0.999

/**
 * Exposes a logged bid under the arm that fits its logged price: holdout; treated, if that is near the evaluated price or is
 * the bid's own price; else explored, which trains the win curve alone.
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
  const unchanged = logged > unchangedFactor && !near
  decision.arm = line.arm === 'holdout' ? 'holdout' : near || unchanged ? 'treated' : 'explored'
  if (line.arm !== 'holdout' && !unchanged) decision.winOut = row.winLogged
  return learner.expose(decision, Math.min(line.in, line.out), now)
}

export class Replica {
  private readonly learners: Readonly<Record<Mode, Learner>>
  /** Seeded, so that one log gives one report. */
  private readonly random = mulberry32(1)
  private advancedAt = 0
  /** Cleared and bid prices of wins in second-price auctions so far. */
  private readonly clearing = new Map<string, { cleared: number; bid: number }>()

  constructor(attributionWindow: number, create: CreateLearner = createLearner) {
    this.learners = {
      revenue: create({ attributionWindow }),
      margin: create({ attributionWindow }),
    }
  }

  /** Advances the clock of the log. */
  advance(now: number): void {
    if (now - this.advancedAt < advanceEvery) return
    this.advancedAt = now
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
    // No holdout: all figures are those of priced bids.
    const asked = { ...policy, holdout: 0 }
    const decision = learner.decide(facts, asked, line.id, now, this.random)
    const lowest = Math.max(policy.minFactor ?? 0, line.floor / line.in)
    const factor = Math.min(1, Math.max(decision.factor, lowest))
    const winAt = (factor: number) => learner.chance(facts, line.in * factor)
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

  trainWin(
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
