/** Prices one eligible bid: arm ▸ learner ▸ out_ba ▸ context ▸ bid log (CONTRACT 4.3-4.5, 5). */

import { plain } from '../base/decimal.ts'
import { unitHash } from '../base/hash.ts'
import type { Integration, OpdConfig } from '../config.ts'
import type { BidFacts, Decision, Policy } from '../learner.ts'
import type {
  BidLog,
  BidObserver,
  DecisionObserver,
  DecisionSink,
  Learners,
  PricingLearner,
  SharedBidLog,
} from '../ports.ts'
import { type Arm, armRules, type Via } from '../shared/arms.ts'
import type { Facets } from '../shared/facets.ts'
import type { ReportFault } from '../shared/fault-log.ts'
import type { BidFeatures, EligibleBid, PriceBid, PricedBid } from '../shared/reasons.ts'
import type { DecisionRecord } from '../types.ts'
import { type Amounts, amounts, applyFactor, keptShareOf } from './amounts.ts'
import type { ContextCodec } from './context.ts'
import type { DayReductions } from './day-reductions.ts'
import { entryOf } from './entry.ts'
import { type Combinations, FacetTable } from './facets.ts'
import {
  maxDomainBytes,
  maxPublisherBytes,
  maxSeatBytes,
  truncateWithHash,
  type WrittenRecord,
} from './record.ts'
import type { ModeStats } from './stats.ts'

/**
 * Selects the decisions that train the model: all of them up to a number per second, and a uniform sample beyond it. Neither the
 * exposure nor the win of any other decision trains the model, so the sample is the same traffic at a lower rate.
 */

/**
 * Decisions of a node that train its models in one second. Each takes 6 us in all, so these take 2.4 % of a core. Training with
 * a half of 8,000 decisions a second costs .4 points of pure margin on the synthetic market of bench/opd, with a quarter 1.3.
 */
export const trainedPerSecond = 4000
/** Milliseconds. */
const windowLength = 1000

/** Chooses the decisions that train the model, if more are made in a second than it can train with. */
export class ExposureSampler {
  private readonly random: () => number
  private readonly maxPerSecond: number
  private windowStart = Number.NaN
  /** Decisions of this window, and those of them that train. */
  private seen = 0
  private taken = 0
  /** Probability that a decision trains, by the number of decisions in the window before. */
  private share = 1

  constructor(random: () => number, maxPerSecond = trainedPerSecond) {
    this.random = random
    this.maxPerSecond = maxPerSecond
  }

  /** Whether a decision at a time (milliseconds) trains the model. */
  takes(time: number): boolean {
    if (!(time >= this.windowStart && time < this.windowStart + windowLength))
      this.startWindow(time)
    this.seen++
    // The rate is higher than in the window before, so the rest of this window does not train.
    if (this.taken >= this.maxPerSecond) return false
    if (this.share < 1 && this.random() >= this.share) return false
    this.taken++
    return true
  }

  private startWindow(time: number): void {
    const isNext = time < this.windowStart + 2 * windowLength
    const { seen, maxPerSecond } = this
    this.share = isNext && seen > maxPerSecond ? maxPerSecond / seen : 1
    this.windowStart = time
    this.seen = 0
    this.taken = 0
  }
}

/**
 * Facts and names that consecutive bids share. They are made once for bids with the same features, which are those of one response. An
 * engine keeps the latest ones, not those of each supplier: these would live until the supplier's next bid, and what lives for so
 * long is copied twice by the garbage collector.
 */

/** All facts have the same fields, absent ones included, so that V8 reads objects of one shape. */
const factsOf = (supplier: string, mode: BidFacts['mode'], features: BidFeatures): BidFacts => ({
  supplier,
  mode,
  inBa: 0,
  floor: 0,
  publisher: features.publisher,
  domain: features.domain,
  placement: features.placement,
  country: features.country,
  device: features.device,
  format: features.format,
  size: features.size,
  dsp: features.dsp,
  seat: features.seat,
  deal: features.deal,
  auction: features.auction,
})

/** Whose bids have the terms: an integration. */
interface TermsOwner {
  readonly supplier: string
  readonly mode: BidFacts['mode']
  readonly facetTable: FacetTable
}

export class SharedTerms {
  /** `inBa` and `floor` are set for each bid. */
  facts: BidFacts = factsOf('', 'revenue', {})
  /** Truncated. */
  publisher = ''
  domain = ''
  seat: string | undefined = undefined
  facets: Facets | undefined = undefined
  /** The learner's key of the auction: salt and id. */
  key = ''
  private features: BidFeatures | null = null
  private auction = ''
  private salt: string | null = null
  private owner: TermsOwner | null = null

  loadBid(bid: EligibleBid, owner: TermsOwner, salt: string, time: number): void {
    const { features, auction } = bid
    if (this.features !== features || this.owner !== owner) {
      this.features = features
      this.owner = owner
      this.facts = factsOf(owner.supplier, owner.mode, features)
      this.publisher = truncateWithHash(features.publisher, maxPublisherBytes)
      this.domain = truncateWithHash(features.domain, maxDomainBytes)
      this.seat = truncateWithHash(features.seat, maxSeatBytes) || undefined
      this.facets = owner.facetTable.facetsOf(features, time)
    }
    if (this.auction === auction && this.salt === salt) return
    this.auction = auction
    this.salt = salt
    this.key = salt + auction
  }
}

/** Shared by all integrations. Codec, seed and salt change with the keys. */
interface PricingDeps {
  learners: Learners
  bidLog: BidLog
  observer: DecisionObserver | null
  shared: SharedBidLog | null
  sink: DecisionSink | null
  now: () => number
  random: () => number
  codec: ContextCodec
  exposures: Pick<ExposureSampler, 'takes'>
  terms: SharedTerms
  combinations: Combinations
  /** Secret and equal on every node: it decides which auctions are within `share`. */
  seed: number
  auctionSalt: string
  onHold: (supplier: string) => boolean
  /** Whether what wins cost cannot be checked: then no price is lowered. */
  isUnchecked: (supplier: string) => boolean
  reductions: Pick<DayReductions, 'amountOf'>
  fault: ReportFault
}

const none = new Uint8Array(0)

/** The result of a decision. Learner and decision are null if the learner was not asked, or failed. */
interface Choice {
  arm: Arm
  factor: number
  propensity: number
  decision: Decision | null
  learner: PricingLearner | null
}

/** The prices of one integration. */
export class Pricing implements TermsOwner {
  readonly supplier: string
  readonly mode: BidFacts['mode']
  readonly facetTable: FacetTable
  private readonly deps: PricingDeps
  private readonly stats: ModeStats
  private readonly observer: BidObserver | null
  private readonly opd: OpdConfig
  private readonly keptShare: ReturnType<typeof keptShareOf>
  /** What the learner is asked for; `minFactor` is that of the latest bid. */
  private readonly policy: Policy

  /** @param integration with OPD on, or in shadow mode */
  constructor({ id, opd }: Integration, deps: PricingDeps, stats: ModeStats) {
    this.deps = deps
    this.stats = stats
    this.supplier = id
    this.observer = deps.observer?.observerOf(id) ?? null
    this.facetTable = new FacetTable(deps.combinations)
    this.opd = opd as OpdConfig
    const { mode, clientFee, minWinRate, minSpend, explore, minFactor, holdout } = this.opd
    this.mode = mode
    this.keptShare = keptShareOf(clientFee)
    this.policy = {
      ...{ minWinRate, minSpend, explore, minFactor, holdout },
      ...(mode === 'margin' ? { targetMargin: this.opd.targetMargin } : {}),
    }
  }

  /** Prices one bid. It never throws: after an error the bid keeps its price. */
  readonly price: PriceBid = (bid, via = 'proxy') => {
    try {
      return this.priceBid(bid, via)
    } catch (error) {
      // After any other error, the bid keeps its price, and its macros are expanded.
      this.stats.learnerErrors++
      this.deps.fault('pricing', error, this.supplier, bid.auction)
      const text = plain(bid.priceText)
      return { priceText: null, inText: text, outText: text, context: '', mode: this.mode }
    }
  }

  /** The arm of a bid that the learner does not price; null: the learner prices it. */
  private fixedArm(bid: EligibleBid, money: Amounts, time: number): Arm | null {
    const { perDay } = this.opd.caps
    if (bid.fixed !== undefined) return 'fixed'
    if (bid.test) return 'test'
    if (bid.rate === null) return 'no_rate'
    if (this.deps.onHold(this.supplier)) return 'hold'
    if (this.opd.enabled === 'shadow') return 'shadow'
    if (this.opd.share < 1 && unitHash(bid.auction, this.deps.seed) >= this.opd.share)
      return 'outside'
    if (this.deps.isUnchecked(this.supplier)) return 'unchecked'
    if (perDay !== null && this.deps.reductions.amountOf(this.supplier, time) >= perDay)
      return 'capped'
    if (money.belowFloor) return 'below_floor'
    return money.atFloor ? 'floor' : null
  }

  /** The smallest factor that `minFactor` and the cap of one bid allow. */
  private lowestFactor(inBase: number): number {
    const { minFactor, caps } = this.opd
    return caps.perBid === null ? minFactor : Math.max(minFactor, 1 - caps.perBid / inBase)
  }

  private askLearner(
    bid: EligibleBid,
    rate: number,
    inBa: number,
    time: number,
    choice: Choice,
  ): void {
    const { facts, key } = this.deps.terms
    facts.inBa = inBa / rate
    facts.floor = bid.floor / rate
    const minFactor = this.lowestFactor(facts.inBa)
    this.policy.minFactor = minFactor
    try {
      const learner = this.deps.learners.learnerOf(this.mode)
      const decision = learner.decide(facts, this.policy, key, time, this.deps.random)
      const { factor } = decision
      if (!(factor > 0 && factor <= 1)) throw new RangeError('a factor outside of (0, 1]')
      this.stats.setControl(decision.guard, decision.theta, decision.lambda)
      choice.decision = decision
      choice.learner = learner
      if (armRules[choice.arm].priced) {
        choice.arm = decision.arm
        choice.factor = decision.arm === 'holdout' ? 1 : Math.max(factor, minFactor)
        choice.propensity = decision.propensity
      }
    } catch (error) {
      // An error of the model costs the optimisation, never the bid.
      this.stats.learnerErrors++
      this.deps.fault('learner', error, this.supplier, bid.auction)
      if (choice.decision === null && armRules[choice.arm].priced) choice.arm = 'hold'
    }
  }

  private expose(choice: Choice, sent: number, time: number): Uint8Array {
    if (choice.decision === null || choice.learner === null) return none
    if (!this.deps.exposures.takes(time)) {
      this.stats.exposuresLeftOut++
      return none
    }
    try {
      return choice.learner.expose(choice.decision, sent, time)
    } catch (error) {
      this.stats.learnerErrors++
      this.deps.fault('learner', error, this.supplier)
      return none
    }
  }

  /** An error of a log costs the entry. The bid keeps its price and its context. */
  private store(record: DecisionRecord): WrittenRecord | null {
    try {
      return this.deps.bidLog.put(record)
    } catch (error) {
      this.deps.fault('bid_log', error, this.supplier)
      return null
    }
  }

  private log(
    record: DecisionRecord,
    bid: EligibleBid,
    rate: number,
    money: Amounts,
    out: number,
    decision: Decision | null,
    context: string,
  ): void {
    try {
      this.observer?.decided(record, money.in, out)
      this.deps.shared?.put(record)
    } catch (error) {
      this.deps.fault('bid_log', error, this.supplier, bid.auction)
    }
    const { sink } = this.deps
    if (sink === null || bid.test) return
    try {
      const minFactor = this.lowestFactor(money.in / rate)
      const entry = entryOf(record, bid, rate, money.in, out, minFactor, decision)
      sink.writeDecision(sink.contexts ? { ...entry, bid: record.bidId, svc_opd: context } : entry)
    } catch (error) {
      this.deps.fault('decision_log', error, this.supplier, bid.auction)
    }
  }

  private priceBid(bid: EligibleBid, via: Via): PricedBid {
    const { mode } = this
    const { terms } = this.deps
    const time = this.deps.now()
    const money = amounts(bid.priceText, bid.price, bid.floor, bid.floorText, this.keptShare)
    const fixed = this.fixedArm(bid, money, time)
    const choice: Choice = {
      arm: fixed ?? 'treated',
      factor: 1,
      propensity: 1,
      decision: null,
      learner: null,
    }
    terms.loadBid(bid, this, this.deps.auctionSalt, time)
    const rate = bid.rate ?? 1
    const asks = armRules[choice.arm].asks && !money.atFloor
    if (asks) this.askLearner(bid, rate, money.in, time, choice)
    const priceText = armRules[choice.arm].priced ? applyFactor(money, choice.factor) : null
    const outText = priceText ?? money.priceText
    const out = priceText === null ? bid.price : Number(priceText)
    const features = asks ? this.expose(choice, out / rate, time) : none
    const { decision } = choice
    const record: DecisionRecord = {
      id: this.deps.codec.nextId(),
      bidId: bid.bidId,
      supplier: this.supplier,
      mode,
      via,
      arm: choice.arm,
      propensity: choice.propensity,
      inBa: money.inText,
      outBa: outText,
      currency: bid.currency,
      decidedAt: time,
      modelVersion: this.deps.learners.version(mode),
      publisher: terms.publisher,
      domain: terms.domain,
      seat: terms.seat,
      facets: terms.facets,
      trains: features.length > 0,
      features,
      floor: bid.floor,
      winIn: decision?.winIn,
      winOut: decision?.winOut,
      theta: decision?.theta,
      lambda: decision?.lambda,
      guard: decision?.guard,
    }
    if (bid.priceDspText !== undefined) record.priceDsp = plain(bid.priceDspText)
    const context = this.deps.codec.encode(record, this.store(record))
    if (!context.withFeatures) this.stats.contextsCut++
    this.log(record, bid, rate, money, out, decision, context.text)
    this.count(bid, record.arm, money.in, out)
    return { priceText, inText: money.inText, outText, context: context.text, mode }
  }

  private count(bid: EligibleBid, arm: Arm, inBa: number, out: number): void {
    if (bid.fixed !== undefined) this.stats.countUnmodified(bid.fixed)
    const counts = bid.rate !== null && armRules[arm].money
    this.stats.countPriced(arm, counts ? inBa / bid.rate! : 0, counts ? out / bid.rate! : 0)
  }
}
