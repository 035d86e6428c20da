/** The state of one supplier and mode: its evidence, multipliers and guards. */

import type { Policy } from '../../learner-types.ts'
import type { Mode } from '../../shared/arms.ts'
import { type Kind, measureLoss, unmeasured } from './calibration.ts'
import { Evidence, groupOf, isTried, type Outcome, totalOf } from './evidence.ts'
import { Guards } from './guards.ts'
import { LossNotices } from './loss-notices.ts'
import { type Decided, free, Multipliers } from './multipliers.ts'
import type { Visit } from './visits.ts'

/** Decisions between two measurements of kept wins and spend. */
const measureEvery = 64
/** The guard `kept` acts if kept wins are below the floor by this much. */
const killBelow = 0.02

/**
 * Share of bids that keep their own price although a lower one is best: at first, when nothing else shows what a lower price
 * loses, and at last. It falls with the bids of all suppliers.
 */
const held = { first: 0.3, last: 0.04, falls: 6000 }
/** With so many wins at lower prices half of the permitted loss may be used. */
const halfTrust = 100
/** Bids at lower prices that are counted as sent and as settled. */
const triedHorizon = 200_000

/** No bid is held if the lowest winning price is known of a larger share of wins. */
const mostly = 0.5

/**
 * Multiple of the configured exploration: last + falls / (bids + young), at most `first`. `most`: the largest share. Over
 * 150,000 bids, a day, this is the configured share, most of it at the start.
 */
const exploration = { first: 20, last: 0.25, falls: 25_000, young: 1200, most: 0.1 }

/** Bids at lower prices of all suppliers: those that were sent, those of which it is known whether they won, and those that won. */
export class TriedBids {
  private sent = 0
  private settled = 0
  private won = 0

  addSent(): void {
    const kept = 1 - 1 / triedHorizon
    this.sent = this.sent * kept + 1
    this.settled *= kept
    this.won *= kept
  }

  addSettled(bids: number): void {
    this.settled += bids
  }

  addWon(bids: number): void {
    this.won += bids
  }

  /**
   * The share of the permitted loss that may be used with the wins at lower prices so far. It is smaller while most of what was
   * sent at lower prices is not settled: where notices are late, prices fall no faster than their results arrive.
   */
  get trust(): number {
    const { sent, settled, won } = this
    const pending = Math.max(0, sent - settled)
    return won > 0 ? 1 / (1 + halfTrust / won + pending / Math.max(1, settled)) : 0
  }

  /** Bids that were pending are lost, so nothing will be known of them. */
  forgetPending(): void {
    this.settled = this.sent
  }

  saved(): [number, number, number] {
    return [this.sent, this.settled, this.won]
  }

  restoreCounts([sent, settled, won]: readonly [number, number, number]): void {
    Object.assign(this, { sent, settled, won })
  }
}

const kinds = ['wins', 'spend'] as const satisfies readonly Kind[]
/** A buffer: each measurement writes it before it reads it. */
const pooled = unmeasured()

type Saved = ReturnType<SupplierState['saved']>

export class SupplierState {
  readonly evidence = new Evidence()
  readonly multipliers = new Multipliers()
  readonly guards = new Guards()
  theta = 1
  lambda = 0
  exposures = 0
  private readonly pool: Evidence
  /** The evidence of this supplier, and that of all suppliers. */
  private readonly both: readonly Evidence[]
  private readonly measured = {
    known: { wins: unmeasured(), spend: unmeasured(), trust: 0 },
    floor: 0,
    /** False: the policy has no floor and no target, so a lower win rate breaks nothing. */
    guarded: true,
    /** The policy has a floor of wins or spend. */
    bound: false,
    /** Whether the lowest winning price of most wins is known. */
    knowsLeast: false,
    /** Decisions until the next measurement. */
    next: measureEvery,
  }
  private readonly lossNotices = new LossNotices()
  private readonly tried: TriedBids
  private readonly visit: Visit | null

  /** `pool`, `tried`: of all suppliers. `visit`: asks for a call of `measure` and `guards.mature`; null: there are none. */
  constructor(pool: Evidence, tried = new TriedBids(), visit: Visit | null = null) {
    this.pool = pool
    this.tried = tried
    this.visit = visit
    this.both = [this.evidence, pool]
  }

  /** False: a lower win rate breaks no promise. */
  get guarded(): boolean {
    return this.measured.guarded
  }

  /**
   * The share of bids that are explored, 0 to 1; 0 while a guard acts.
   *
   * @param usual the share of the policy, 0 to 1
   */
  exploration(usual: number): number {
    if (this.guards.acts || this.exposures === 0) return 0
    const { first, last, falls, young, most } = exploration
    const times = Math.min(first, last + falls / (this.pool.age + young))
    return Math.min(Math.max(most, usual), usual * times)
  }

  /**
   * Sets theta and lambda for one bid.
   *
   * @param policy of the integration
   * @param mode of the integration
   */
  loadPolicy(policy: Policy, mode: Mode): void {
    this.theta = this.multipliers.theta(policy, mode)
    this.lambda = this.multipliers.lambda(policy, mode)
  }

  /**
   * The share of bids that keep their own price although a lower one is best. Their wins, beside those of lowered bids, show what
   * lower prices lose. Notices that have the lowest winning price show it as well.
   */
  get heldShare(): number {
    if (!this.measured.bound || this.measured.knowsLeast) return 0
    const { first, last, falls } = held
    return last + ((first - last) * falls) / (this.pool.age + falls)
  }

  /**
   * A treated or explored bid was priced.
   *
   * @param policy of the integration
   * @param mode of the integration
   * @param bid prices are CPM in the base currency
   */
  decided(policy: Policy, mode: Mode, bid: Decided): void {
    const { multipliers, evidence, measured, guards } = this
    measured.floor = mode === 'margin' ? 0 : (policy.minWinRate ?? 0.97)
    measured.guarded = mode === 'margin' || !free(policy)
    measured.bound = mode !== 'margin' && measured.guarded
    if (--measured.next <= 0) this.visit?.mark()
    if (!Number.isFinite(bid.winIn + bid.winOut + bid.out)) {
      guards.notFinite()
      return
    }
    multipliers.decided(policy, mode, bid, evidence, measured.known, guards.acts)
  }

  /** Measures what is kept, if enough was decided since. It takes longer than a decision, so none waits for it. */
  measure(): void {
    const { evidence, pool, guards, multipliers, measured } = this
    const { known } = measured
    if (measured.next > 0) return
    measured.next = measureEvery
    for (const kind of kinds) {
      measureLoss(pool, kind, pooled)
      measureLoss(evidence, kind, known[kind], pooled)
    }
    known.trust = this.tried.trust
    measured.knowsLeast =
      evidence.total('optimised', 'knownWinsIn') > mostly * evidence.total('optimised', 'wins')
    if (!guards.checkKept(evidence, measured.floor - killBelow)) return
    // The evidence is of prices that are no longer sent.
    evidence.reset()
    multipliers.spend *= 1.5
    multipliers.wins *= 1.5
  }

  /** Before its first fit the model may expect a half or twice the wins that there are, and of some bids more than of others. */
  private isEvidence({ sentAt }: Outcome): boolean {
    return sentAt >= this.pool.from
  }

  /**
   * A bid was sent.
   *
   * @param outcome what its features say
   * @param noticeTimeout milliseconds after which a bid without a notice counts as not won
   */
  exposed(outcome: Outcome, noticeTimeout: number): void {
    const { winIn, winOut } = outcome
    this.exposures++
    this.lossNotices.exposed()
    if (this.guards.oldest === Number.POSITIVE_INFINITY) this.visit?.mark()
    this.guards.exposed(winOut, winIn > 0 ? winOut / winIn : 1, outcome.sentAt, noticeTimeout)
    const group = groupOf(outcome)
    if (group === null) return
    for (const evidence of this.both) evidence.age++
    if (isTried(group)) this.tried.addSent()
  }

  /**
   * It is known whether an exposure won. Bids of which it is not known yet are no evidence: those at lower prices are the newest
   * after a start, and the oldest after a guard acted.
   *
   * @param outcome what its features say
   * @param weight bids that it represents, 1 or more
   */
  resolved(outcome: Outcome, weight: number): void {
    const group = groupOf(outcome)
    if (group === null) return
    if (isTried(group)) this.tried.addSettled(weight)
    if (!this.isEvidence(outcome)) return
    for (let n = 0; n < weight; n++)
      for (const evidence of this.both) evidence.exposed(group, outcome)
  }

  /**
   * A win that was reported to this node.
   *
   * @param outcome what its features say
   * @param cleared CPM in the base currency
   * @param now milliseconds since the epoch
   * @param isResolved false: a crash lost the exposure, so it is no evidence, and neither is its win
   */
  addWin(outcome: Outcome, cleared: number, now: number, isResolved = true): void {
    const { inBa, sent, weight } = outcome
    const group = groupOf(outcome)
    this.visit?.mark()
    this.guards.addWin(outcome.sentAt, sent, cleared, now, isTried(group))
    this.lossNotices.countWin()
    if (group === null || !isResolved) return
    if (isTried(group)) this.tried.addWon(1)
    if (!this.isEvidence(outcome)) return
    for (const evidence of this.both) evidence.addWin(group, inBa, Math.min(cleared, sent), weight)
  }

  /**
   * A win of a bid that competed at its own price, although a lower one was sent.
   *
   * @param outcome what its features say
   * @param cleared CPM in the base currency
   * @param now milliseconds since the epoch
   */
  wonUnapplied({ sentAt, inBa }: Outcome, cleared: number, now: number): void {
    this.visit?.mark()
    this.guards.addWin(sentAt, inBa, cleared, now, false)
  }

  /**
   * A bid of the past. The guards, which compare present sums, leave it out.
   *
   * @param outcome what its features say
   * @param cleared CPM in the base currency; null: it lost
   */
  settled(outcome: Outcome, cleared: number | null): void {
    this.exposures++
    const group = groupOf(outcome)
    if (group === null) return
    const { inBa, sent, weight } = outcome
    if (cleared !== null && isTried(group)) this.tried.addWon(1)
    for (const evidence of this.both) {
      evidence.age++
      if (!this.isEvidence(outcome)) continue
      evidence.exposed(group, outcome)
      if (cleared !== null) evidence.addWin(group, inBa, Math.min(cleared, sent), weight)
    }
  }

  /**
   * A notice had the lowest winning price.
   *
   * @param outcome what the features of the bid say
   * @param least CPM in the base currency; above the price sent: the bid lost
   */
  learnLeast(outcome: Outcome, least: number): void {
    const { inBa, sent } = outcome
    const lost = least > sent
    if (lost) this.lossNotices.lost()
    const group = groupOf(outcome)
    const { perNotice } = this.lossNotices
    if (group === null || perNotice === 0 || !this.isEvidence(outcome)) return
    for (const evidence of this.both)
      evidence.addLeast(group, inBa, sent, least, lost ? perNotice : 1)
  }

  /**
   * Removes an exposure that must not train the model.
   *
   * @param outcome what its features say
   */
  withdrawn(outcome: Outcome): void {
    const group = groupOf(outcome)
    if (group === null || !this.isEvidence(outcome)) return
    for (const evidence of this.both) evidence.exposed(group, outcome, -1)
  }

  /** Adds sums of another node. */
  merge(sums: Float64Array, now: number, noticeTimeout: number): void {
    for (const evidence of this.both) evidence.merge(sums)
    this.visit?.mark()
    const newest = now - noticeTimeout / 4
    const due = Math.max(0, totalOf(sums, 'all', 'due'))
    const dueIn = totalOf(sums, 'all', 'dueIn')
    const bids = dueIn > 0 ? (totalOf(sums, 'all', 'bids') * due) / dueIn : 0
    this.guards.exposedElsewhere(due, bids, newest, now, noticeTimeout)
    const [wins, tried] = [totalOf(sums, 'all', 'wins'), totalOf(sums, 'tried', 'wins')]
    this.guards.received(wins, tried, newest, now)
    this.tried.addWon(tried)
  }

  saved() {
    const { exposures, evidence, multipliers, guards, lossNotices, measured } = this
    return {
      exposures,
      sums: [...evidence.sums],
      age: evidence.age,
      multipliers: multipliers.saved(),
      guards: guards.saved(),
      lossNotices: lossNotices.saved(),
      measured: structuredClone(measured),
    }
  }

  restoreState(saved: Saved): void {
    this.visit?.mark()
    this.exposures = saved.exposures
    // The age determines how many bids the evidence covers.
    this.evidence.restoreSums(saved.sums, saved.age)
    this.multipliers.restoreMultipliers(saved.multipliers)
    this.guards.restoreGuards(saved.guards)
    this.lossNotices.restoreCounts(saved.lossNotices)
    Object.assign(this.measured, structuredClone(saved.measured))
  }
}
