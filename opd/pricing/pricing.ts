/** Prices one eligible bid: arm ▸ learner ▸ out_ba ▸ context ▸ bid log (CONTRACT 4.3-4.5, 5). */

import { plain } from '../base/decimal.ts'
import { unitHash } from '../base/hash.ts'
import type { Integration, OpdConfig } from '../config.ts'
import type { Decision, Policy } from '../learner.ts'
import type {
  BidLog,
  DecisionObserver,
  DecisionSink,
  Learners,
  PricingLearner,
  SharedBidLog,
} from '../ports.ts'
import { type Arm, armRules, type Via } from '../shared/arms.ts'
import type { ReportFault } from '../shared/fault-log.ts'
import type { EligibleBid, PriceBid, PricedBid } from '../shared/reasons.ts'
import type { DecisionRecord } from '../types.ts'
import { type Amounts, amounts, applyFactor, keptShareOf } from './amounts.ts'
import type { ContextCodec } from './context.ts'
import type { DayReductions } from './day-reductions.ts'
import { entryOf } from './entry.ts'
import type { ExposureSampler } from './exposures.ts'
import type { WrittenRecord } from './record.ts'
import type { ModeStats } from './stats.ts'
import { SharedTerms } from './terms.ts'

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
  /** Secret and equal on every node: it decides which auctions are within `share`. */
  seed: number
  auctionSalt: string
  onHold: (supplier: string) => boolean
  reductions: Pick<DayReductions, 'of'>
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

/** Creates the price function of one integration. */
export function createPricing(
  integration: Integration,
  deps: PricingDeps,
  stats: ModeStats,
): PriceBid {
  const opd = integration.opd as OpdConfig
  const supplier = integration.id
  const { mode } = opd
  const { perBid, perDay } = opd.caps
  const { now, random, learners, sink, fault } = deps
  const keptShare = keptShareOf(opd.clientFee)
  const terms = new SharedTerms(supplier, mode)
  const policy: Policy = {
    minWinRate: opd.minWinRate,
    minSpend: opd.minSpend,
    explore: opd.explore,
    minFactor: opd.minFactor,
    holdout: opd.holdout,
    ...(mode === 'margin' ? { targetMargin: opd.targetMargin } : {}),
  }

  /** The arm of a bid that the learner does not price; null: the learner prices it. */
  function fixedArm(bid: EligibleBid, money: Amounts, at: number): Arm | null {
    if (bid.fixed !== undefined) return 'fixed'
    if (bid.test) return 'test'
    if (bid.rate === null) return 'no_rate'
    if (deps.onHold(supplier)) return 'hold'
    if (opd.enabled === 'shadow') return 'shadow'
    if (opd.share < 1 && unitHash(bid.auction, deps.seed) >= opd.share) return 'outside'
    if (perDay !== null && deps.reductions.of(supplier, at) >= perDay) return 'capped'
    if (money.belowFloor) return 'below_floor'
    return money.atFloor ? 'floor' : null
  }

  /** The smallest factor that `minFactor` and the cap of one bid allow. */
  function lowestFactor(inBase: number): number {
    return perBid === null ? opd.minFactor : Math.max(opd.minFactor, 1 - perBid / inBase)
  }

  function askLearner(
    bid: EligibleBid,
    rate: number,
    inBa: number,
    at: number,
    choice: Choice,
  ): void {
    const { facts } = terms
    facts.inBa = inBa / rate
    facts.floor = bid.floor / rate
    const minFactor = lowestFactor(facts.inBa)
    policy.minFactor = minFactor
    try {
      const learner = learners.of(mode)
      const decision = learner.decide(facts, policy, terms.key, at, random)
      const { factor } = decision
      if (!(factor > 0 && factor <= 1)) throw new RangeError('a factor outside of (0, 1]')
      stats.setControl(decision.guard, decision.theta, decision.lambda)
      choice.decision = decision
      choice.learner = learner
      if (armRules[choice.arm].priced) {
        choice.arm = decision.arm
        choice.factor = decision.arm === 'holdout' ? 1 : Math.max(factor, minFactor)
        choice.propensity = decision.propensity
      }
    } catch (error) {
      // An error of the model costs the optimisation, never the bid.
      stats.learnerErrors++
      fault('learner', error, supplier, bid.auction)
      if (choice.decision === null && armRules[choice.arm].priced) choice.arm = 'hold'
    }
  }

  function expose(choice: Choice, sent: number, at: number): Uint8Array {
    if (choice.decision === null || choice.learner === null) return none
    if (!deps.exposures.takes(at)) {
      stats.exposuresLeftOut++
      return none
    }
    try {
      return choice.learner.expose(choice.decision, sent, at)
    } catch (error) {
      stats.learnerErrors++
      fault('learner', error, supplier)
      return none
    }
  }

  /** An error of a log costs the entry. The bid keeps its price and its context. */
  function store(record: DecisionRecord): WrittenRecord | null {
    try {
      return deps.bidLog.put(record)
    } catch (error) {
      fault('bid_log', error, supplier)
      return null
    }
  }

  function log(
    record: DecisionRecord,
    bid: EligibleBid,
    rate: number,
    money: Amounts,
    out: number,
    decision: Decision | null,
    context: string,
  ): void {
    try {
      deps.observer?.decided(record, money.in, out)
      deps.shared?.put(record)
    } catch (error) {
      fault('bid_log', error, supplier, bid.auction)
    }
    if (sink === null || bid.test) return
    try {
      const minFactor = lowestFactor(money.in / rate)
      const entry = entryOf(record, bid, rate, money.in, out, minFactor, decision)
      sink.decided(sink.contexts ? { ...entry, bid: record.bidId, svc_opd: context } : entry)
    } catch (error) {
      fault('decision_log', error, supplier, bid.auction)
    }
  }

  function priceBid(bid: EligibleBid, via: Via): PricedBid {
    const at = now()
    const money = amounts(bid.priceText, bid.price, bid.floor, bid.floorText, keptShare)
    const fixed = fixedArm(bid, money, at)
    const choice: Choice = {
      arm: fixed ?? 'treated',
      factor: 1,
      propensity: 1,
      decision: null,
      learner: null,
    }
    terms.load(bid, deps.auctionSalt)
    const rate = bid.rate ?? 1
    const asks = armRules[choice.arm].asks && !money.atFloor
    if (asks) askLearner(bid, rate, money.in, at, choice)
    const priceText = armRules[choice.arm].priced ? applyFactor(money, choice.factor) : null
    const outText = priceText ?? money.priceText
    const out = priceText === null ? bid.price : Number(priceText)
    const features = asks ? expose(choice, out / rate, at) : none
    const { decision } = choice
    const record: DecisionRecord = {
      id: deps.codec.nextId(),
      bidId: bid.bidId,
      supplier,
      mode,
      via,
      arm: choice.arm,
      propensity: choice.propensity,
      inBa: money.inText,
      outBa: outText,
      currency: bid.currency,
      at,
      modelVersion: learners.version(mode),
      publisher: terms.publisher,
      domain: terms.domain,
      seat: terms.seat,
      teaches: features.length > 0,
      features,
      floor: bid.floor,
      winIn: decision?.winIn,
      winOut: decision?.winOut,
      theta: decision?.theta,
      lambda: decision?.lambda,
      guard: decision?.guard,
    }
    if (bid.priceDspText !== undefined) record.priceDsp = plain(bid.priceDspText)
    const context = deps.codec.encode(record, store(record))
    if (!context.withFeatures) stats.contextsCut++
    log(record, bid, rate, money, out, decision, context.text)
    count(bid, record.arm, money.in, out)
    return { priceText, inText: money.inText, outText, context: context.text, mode }
  }

  function count(bid: EligibleBid, arm: Arm, inBa: number, out: number): void {
    if (bid.fixed !== undefined) stats.countUnmodified(bid.fixed)
    const counts = bid.rate !== null && armRules[arm].money
    stats.priced(arm, counts ? inBa / bid.rate! : 0, counts ? out / bid.rate! : 0)
  }

  return (bid, via = 'proxy') => {
    try {
      return priceBid(bid, via)
    } catch (error) {
      // After any other error, the bid keeps its price, and its macros are expanded.
      stats.learnerErrors++
      fault('pricing', error, supplier, bid.auction)
      const text = plain(bid.priceText)
      return { priceText: null, inText: text, outText: text, context: '', mode }
    }
  }
}
