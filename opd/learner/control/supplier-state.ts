/** What is held per supplier and mode: evidence, the controller's multipliers, the guards. */
import type { Mode } from '../../pricing/arms.ts'
import type { Policy } from '../types.ts'
import { measureLosses, unverified } from './calibration.ts'
import { Guards } from './guardrails.ts'
import { Evidence, groupOf, type Outcome, totalOf } from './kept.ts'
import { LossNotices } from './loss-notices.ts'
import { Controller, type Decided, free, standingOf } from './multipliers.ts'
import type { Segment, Segments } from './segments.ts'

/** Decisions between two judgements of what is kept. */
const judgeEvery = 64
/** At this much under the floor the kill switch acts. */
const killBelow = 0.02

/** Of the auctions with theta raised. */
const raise = Math.exp(0.7)

/** Share of the wins whose lowest winning price is known. */
const mostly = 0.5

/**
 * Multiples of the usual exploration: at first, and at last; bids by which it falls, and which are added to their number; and
 * the largest share. Most of a day's exploration is at its start: over 150,000 bids the usual share is explored.
 */
const exploration = { first: 20, last: 0.25, falls: 25_000, young: 1200, most: 0.1 }

const kinds = ['wins', 'spend'] as const
/** Written by each judgement before it reads them. */
const pooled = unverified()
const own = unverified()
/** Before the first judgement. */
const unjudged = () => standingOf(unverified(), unverified())

/** As saved. Earlier releases did not count losses with a notice. */
type Saved = Omit<ReturnType<SupplierState['saved']>, 'toldLosses'> & {
  toldLosses?: [number, number]
}

export class SupplierState {
  readonly evidence = new Evidence()
  readonly controller = new Controller()
  readonly guards = new Guards()
  theta = 1
  lambda = 0
  exposures = 0
  /** Without a floor or a target there is nothing that a lower win rate could break. */
  guarded = true
  private readonly pool: Evidence
  /** Its own evidence and that of all suppliers. */
  private readonly both: readonly Evidence[]
  private readonly segments: Segments
  private readonly standings = { wins: unjudged(), spend: unjudged() }
  private floor = 0
  /** The lowest winning price of most wins is known. */
  private knowsLeast = false
  private judgeIn = judgeEvery
  private readonly lossNotices = new LossNotices()

  constructor(pool: Evidence, segments: Segments) {
    this.pool = pool
    this.both = [this.evidence, pool]
    this.segments = segments
  }

  /** The share explored; none while a guard acts. */
  exploration(usual: number): number {
    if (this.guards.acts || this.exposures === 0) return 0
    const { first, last, falls, young, most } = exploration
    const times = Math.min(first, last + falls / (this.pool.age + young))
    return Math.min(Math.max(most, usual), usual * times)
  }

  /** The share of it near the price that would have been chosen: early exploration is spread over all prices. */
  get exploresNear(): number {
    return this.pool.age < exploration.falls ? 0 : 0.5
  }

  /** Sets theta and lambda for one bid of a publisher and a seat. */
  load(policy: Policy, mode: Mode, publisher: number, seat: number): void {
    const { controller, segments } = this
    this.theta = controller.theta(policy, mode)
    this.lambda = controller.lambda(policy, mode)
    if (mode === 'margin') return
    const boost = Math.max(segments.boost(publisher), segments.boost(seat))
    if (boost === 1) return
    this.theta = 1 + (this.theta - 1) * boost
    this.lambda *= boost
  }

  /**
   * The factor of theta - 1 and lambda in auctions in which they are raised. The wins of both kinds of auctions show what lower
   * prices lose, and as prices of one placement differ, the curve above a chosen price is observed. Where lowest winning prices
   * are known, they show both.
   */
  raising(): number {
    return this.guarded && this.theta > 1 && !this.knowsLeast ? raise : 1
  }

  /** A price of the treated or explored was found. */
  decided(policy: Policy, mode: Mode, bid: Decided, now: number): void {
    this.floor = mode === 'margin' ? 0 : (policy.minWinRate ?? 0.97)
    this.guarded = mode === 'margin' || !free(policy)
    this.judgeIn--
    if (!Number.isFinite(bid.winIn + bid.winOut + bid.out)) {
      this.guards.broken(now)
      return
    }
    const { controller, evidence, standings, guards } = this
    controller.decided(policy, mode, bid, evidence, standings, guards.shallow)
  }

  /** Judges what is kept, if enough was decided since. Not beside a decision: it takes longer than one. */
  judge(now: number): void {
    if (this.judgeIn > 0) return
    this.judgeIn = judgeEvery
    const { evidence, pool, guards, controller, standings } = this
    for (const kind of kinds) {
      measureLosses(pool, kind, pooled)
      measureLosses(evidence, kind, own, pooled)
      standings[kind] = standingOf(own, pooled)
    }
    this.knowsLeast =
      evidence.total('optimised', 'knownWinsIn') > mostly * evidence.total('optimised', 'wins')
    if (!guards.judge(evidence, this.floor - killBelow, now)) return
    // What was measured was of prices that are not sent any more.
    evidence.reset()
    controller.spend *= 1.5
    controller.wins *= 1.5
  }

  exposed(outcome: Outcome, patience: number): void {
    const { arm, winIn, winOut, publisher, seat } = outcome
    this.exposures++
    this.lossNotices.exposed()
    this.guards.exposed(winOut, winIn > 0 ? winOut / winIn : 1, outcome.at, patience)
    const group = groupOf(outcome)
    if (group === null) return
    for (const evidence of this.both) evidence.exposed(group, outcome)
    if (arm === 'holdout') return
    this.judgeSegment(this.segments.exposed(publisher, winIn))
    if (seat !== publisher) this.judgeSegment(this.segments.exposed(seat, winIn))
  }

  private judgeSegment(segment: Segment | null): void {
    if (segment === null) return
    const { evidence } = this
    const ratio =
      evidence.total('optimised', 'wins') / Math.max(1, evidence.total('optimised', 'dueIn'))
    this.segments.judge(segment, ratio, this.standings.wins.kept, this.floor)
  }

  won(outcome: Outcome, cleared: number, now: number): void {
    const { arm, inBa, sent, weight, publisher, seat } = outcome
    this.guards.won(outcome.at, sent, cleared, now)
    this.lossNotices.won()
    const group = groupOf(outcome)
    if (group === null) return
    for (const evidence of this.both) evidence.won(group, inBa, Math.min(cleared, sent), weight)
    if (arm === 'holdout') return
    this.segments.won(publisher)
    if (seat !== publisher) this.segments.won(seat)
  }

  /** A notice had the lowest price that would have won. */
  knew(outcome: Outcome, least: number): void {
    const { inBa, sent } = outcome
    const lost = least > sent
    if (lost) this.lossNotices.lost()
    const group = groupOf(outcome)
    const { each } = this.lossNotices
    if (group === null || each === 0) return
    for (const evidence of this.both) evidence.knew(group, inBa, sent, least, lost ? each : 1)
  }

  /** The exposure trains nothing; its notice came, so its supplier is not silent. */
  withdrawn(outcome: Outcome): void {
    const group = groupOf(outcome)
    if (group === null) return
    for (const evidence of this.both) evidence.exposed(group, outcome, -1)
  }

  /** Sums of another node. */
  merge(sums: Float64Array, now: number, patience: number): void {
    for (const evidence of this.both) evidence.merge(sums)
    const at = now - patience / 4
    const due = Math.max(0, totalOf(sums, 'all', 'due'))
    const dueIn = totalOf(sums, 'all', 'dueIn')
    const bids = dueIn > 0 ? (totalOf(sums, 'all', 'bids') * due) / dueIn : 0
    this.guards.exposedElsewhere(due, bids, at, now, patience)
    this.guards.received(totalOf(sums, 'all', 'wins'), at, now)
  }

  saved() {
    const { evidence, controller, guards, exposures, standings, floor, judgeIn, lossNotices } = this
    const { spend, wins, margin } = controller
    return {
      exposures,
      sums: [...evidence.sums],
      age: evidence.age,
      multipliers: [spend, wins, margin] as [number, number, number],
      means: controller.saved(),
      guards: guards.saved(),
      judged: { standings, floor, bound: this.guarded, told: this.knowsLeast, judgeIn },
      toldLosses: lossNotices.saved(),
    }
  }

  restore(from: Saved): void {
    this.exposures = from.exposures
    // With its age: young evidence forgets sooner.
    this.evidence.restore(from.sums, from.age)
    const [spend, wins, margin] = from.multipliers
    this.controller.startFrom({ spend, wins, margin })
    this.controller.restore(from.means)
    this.guards.restore(from.guards)
    this.lossNotices.restore(from.toldLosses ?? [0, 0])
    const { standings, floor, bound, told, judgeIn } = from.judged
    this.floor = floor
    this.guarded = bound
    this.knowsLeast = told
    this.judgeIn = judgeIn
    for (const kind of kinds) Object.assign(this.standings[kind], standings[kind])
  }
}
