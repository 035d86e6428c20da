/** The state of one supplier and mode: its evidence, multipliers and guards. */

import type { Policy } from '../../learner-types.ts'
import type { Mode } from '../../shared/arms.ts'
import { measureLosses, unverified } from './calibration.ts'
import { Evidence, groupOf, type Outcome, totalOf } from './evidence.ts'
import { Guards } from './guards.ts'
import { LossNotices } from './loss-notices.ts'
import { type Decided, free, Multipliers, standingOf } from './multipliers.ts'
import type { Segment, Segments } from './segments.ts'

/** Decisions between two measurements of kept wins and spend. */
const measureEvery = 64
/** The guard `kept` acts if kept wins are below the floor by this much. */
const killBelow = 0.02

/** Factor of theta - 1 and lambda in auctions with a raised theta. */
const raise = Math.exp(0.7)

/** Theta is not raised if the lowest winning price is known of a larger share of wins. */
const mostly = 0.5

/**
 * Multiple of the configured exploration: last + falls / (bids + young), at most `first`. `most`: the largest share. Over
 * 150,000 bids, a day, this is the configured share, most of it at the start.
 */
const exploration = { first: 20, last: 0.25, falls: 25_000, young: 1200, most: 0.1 }

const kinds = ['wins', 'spend'] as const
/** Buffers: each measurement writes them before it reads them. */
const pooled = unverified()
const own = unverified()
/** Before the first measurement. */
const unmeasured = () => standingOf(unverified(), unverified())

/** As saved; the names are those of the snapshot format. Earlier releases did not count losses with a notice. */
type Saved = Omit<ReturnType<SupplierState['saved']>, 'toldLosses'> & {
  toldLosses?: [number, number]
}

export class SupplierState {
  readonly evidence = new Evidence()
  readonly multipliers = new Multipliers()
  readonly guards = new Guards()
  theta = 1
  lambda = 0
  exposures = 0
  /** False: the policy has no floor and no target, so a lower win rate breaks nothing. */
  guarded = true
  private readonly pool: Evidence
  /** The evidence of this supplier, and that of all suppliers. */
  private readonly both: readonly Evidence[]
  private readonly segments: Segments
  private readonly standings = { wins: unmeasured(), spend: unmeasured() }
  private floor = 0
  /** Whether the lowest winning price of most wins is known. */
  private knowsLeast = false
  private measureIn = measureEvery
  private readonly lossNotices = new LossNotices()

  constructor(pool: Evidence, segments: Segments) {
    this.pool = pool
    this.both = [this.evidence, pool]
    this.segments = segments
  }

  /** The share of bids that are explored; 0 while a guard acts. */
  exploration(usual: number): number {
    if (this.guards.acts || this.exposures === 0) return 0
    const { first, last, falls, young, most } = exploration
    const times = Math.min(first, last + falls / (this.pool.age + young))
    return Math.min(Math.max(most, usual), usual * times)
  }

  /** The share of explored bids that are priced near the best price. Early exploration covers all prices. */
  get exploresNear(): number {
    return this.pool.age < exploration.falls ? 0 : 0.5
  }

  /** Sets theta and lambda for one bid of a publisher and a seat. */
  load(policy: Policy, mode: Mode, publisher: number, seat: number): void {
    const { multipliers, segments } = this
    this.theta = multipliers.theta(policy, mode)
    this.lambda = multipliers.lambda(policy, mode)
    if (mode === 'margin') return
    const boost = Math.max(segments.boost(publisher), segments.boost(seat))
    if (boost === 1) return
    this.theta = 1 + (this.theta - 1) * boost
    this.lambda *= boost
  }

  /**
   * The factor of theta - 1 and lambda in auctions with a raised theta. Comparing the wins of both kinds of auctions shows what
   * lower prices lose. Prices of one placement then differ, so the curve above a chosen price is observed. Neither is needed
   * where notices have the lowest winning price.
   */
  raising(): number {
    return this.guarded && this.theta > 1 && !this.knowsLeast ? raise : 1
  }

  /** A treated or explored bid was priced. */
  decided(policy: Policy, mode: Mode, bid: Decided): void {
    this.floor = mode === 'margin' ? 0 : (policy.minWinRate ?? 0.97)
    this.guarded = mode === 'margin' || !free(policy)
    this.measureIn--
    if (!Number.isFinite(bid.winIn + bid.winOut + bid.out)) {
      this.guards.notFinite()
      return
    }
    const { multipliers, evidence, standings, guards } = this
    multipliers.decided(policy, mode, bid, evidence, standings, guards.limitsPrices)
  }

  /** Measures what is kept, if enough was decided since. It takes longer than a decision, so none waits for it. */
  measure(): void {
    if (this.measureIn > 0) return
    this.measureIn = measureEvery
    const { evidence, pool, guards, multipliers, standings } = this
    for (const kind of kinds) {
      measureLosses(pool, kind, pooled)
      measureLosses(evidence, kind, own, pooled)
      standings[kind] = standingOf(own, pooled)
    }
    this.knowsLeast =
      evidence.total('optimised', 'knownWinsIn') > mostly * evidence.total('optimised', 'wins')
    if (!guards.checkKept(evidence, this.floor - killBelow)) return
    // The evidence is of prices that are no longer sent.
    evidence.reset()
    multipliers.spend *= 1.5
    multipliers.wins *= 1.5
  }

  exposed(outcome: Outcome, noticeTimeout: number): void {
    const { arm, winIn, winOut, publisher, seat } = outcome
    this.exposures++
    this.lossNotices.exposed()
    this.guards.exposed(winOut, winIn > 0 ? winOut / winIn : 1, outcome.at, noticeTimeout)
    const group = groupOf(outcome)
    if (group === null) return
    for (const evidence of this.both) evidence.exposed(group, outcome)
    if (arm === 'holdout') return
    this.adjustSegment(this.segments.exposed(publisher, winIn))
    if (seat !== publisher) this.adjustSegment(this.segments.exposed(seat, winIn))
  }

  private adjustSegment(segment: Segment | null): void {
    if (segment === null) return
    const { evidence } = this
    const ratio =
      evidence.total('optimised', 'wins') / Math.max(1, evidence.total('optimised', 'dueIn'))
    this.segments.adjust(segment, ratio, this.standings.wins.kept, this.floor)
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

  /** A notice had the lowest winning price. */
  learnLeast(outcome: Outcome, least: number): void {
    const { inBa, sent } = outcome
    const lost = least > sent
    if (lost) this.lossNotices.lost()
    const group = groupOf(outcome)
    const { each } = this.lossNotices
    if (group === null || each === 0) return
    for (const evidence of this.both) evidence.addLeast(group, inBa, sent, least, lost ? each : 1)
  }

  /** Removes an exposure that must not train the model. */
  withdrawn(outcome: Outcome): void {
    const group = groupOf(outcome)
    if (group === null) return
    for (const evidence of this.both) evidence.exposed(group, outcome, -1)
  }

  /** Adds sums of another node. */
  merge(sums: Float64Array, now: number, noticeTimeout: number): void {
    for (const evidence of this.both) evidence.merge(sums)
    const at = now - noticeTimeout / 4
    const due = Math.max(0, totalOf(sums, 'all', 'due'))
    const dueIn = totalOf(sums, 'all', 'dueIn')
    const bids = dueIn > 0 ? (totalOf(sums, 'all', 'bids') * due) / dueIn : 0
    this.guards.exposedElsewhere(due, bids, at, now, noticeTimeout)
    this.guards.received(totalOf(sums, 'all', 'wins'), at, now)
  }

  saved() {
    const { evidence, multipliers, guards, exposures, standings, floor, lossNotices } = this
    const { spend, wins, margin } = multipliers
    return {
      exposures,
      sums: [...evidence.sums],
      age: evidence.age,
      multipliers: [spend, wins, margin] as [number, number, number],
      means: multipliers.saved(),
      guards: guards.saved(),
      judged: {
        standings,
        floor,
        bound: this.guarded,
        told: this.knowsLeast,
        judgeIn: this.measureIn,
      },
      toldLosses: lossNotices.saved(),
    }
  }

  restore(from: Saved): void {
    this.exposures = from.exposures
    // The age determines how many bids the evidence covers.
    this.evidence.restore(from.sums, from.age)
    const [spend, wins, margin] = from.multipliers
    this.multipliers.startFrom({ spend, wins, margin })
    this.multipliers.restore(from.means)
    this.guards.restore(from.guards)
    this.lossNotices.restore(from.toldLosses ?? [0, 0])
    const { standings, floor, bound, told, judgeIn } = from.judged
    this.floor = floor
    this.guarded = bound
    this.knowsLeast = told
    this.measureIn = judgeIn
    for (const kind of kinds) Object.assign(this.standings[kind], standings[kind])
  }
}
