/** Prices one eligible bid: arm ▸ learner ▸ out_ba ▸ context ▸ bid log (CONTRACT 4.3-4.5, 5). */

import type { Integration, OpdConfig } from '../config.ts'
import type { NoteFault } from '../engine/fault-log.ts'
import type { ModeStats } from '../engine/stats.ts'
import type { DecisionRecord } from '../engine/types.ts'
import type { BidFacts, Decision, Learner, Policy } from '../learner.ts'
import type { BidLog, DecisionEntry, DecisionSink, Learners, SharedBidLog } from '../ports.ts'
import { plain } from '../shared/decimal.ts'
import { type Amounts, amounts, keepOf, lowered } from './amounts.ts'
import { type Arm, armRules, type Guard, guards, shareOf } from './arms.ts'
import type { ContextCodec } from './context.ts'
import { cut, hashed, longestDomain, longestPublisher } from './pseudonyms.ts'
import type { EligibleBid, PriceBid, PricedBid } from './types.ts'

/** What pricing shares over all integrations; codec, seed and salt change with the keys. */
export interface PricingDeps {
  learners: Learners
  bidLog: BidLog
  shared: SharedBidLog | null
  sink: DecisionSink | null
  now: () => number
  random: () => number
  codec: ContextCodec
  /** Secret, the same on every node: who is outside of `share`, and who is holdout. */
  seed: number
  auctionSalt: string
  held: (supplier: string) => boolean
  fault: NoteFault
}

const none = new Uint8Array(0)
const isGuard = (name: string | undefined): name is Guard => guards.includes(name as Guard)

/** Fields of `Decision` where no learner was asked, or it failed. */
interface Chosen {
  arm: Arm
  factor: number
  propensity: number
  decision: Decision | null
  learner: Learner | null
}

/** The price function of one integration, bound when the configuration loads. */
export function pricing(integration: Integration, deps: PricingDeps, stats: ModeStats): PriceBid {
  const opd = integration.opd as OpdConfig
  const supplier = integration.id
  const { mode, minFactor } = opd
  const { now, random, learners, sink, fault } = deps
  const keep = keepOf(opd.clientFee)
  const policy: Policy = {
    minWinRate: opd.minWinRate,
    minSpend: opd.minSpend,
    explore: opd.explore,
    minFactor,
    holdout: opd.holdout,
    ...(mode === 'margin' ? { targetMargin: opd.targetMargin } : {}),
  }

  /** The arm as far as the learner has no say; null: it has. */
  function fixedArm(bid: EligibleBid, money: Amounts): Arm | null {
    if (bid.fixed !== undefined) return 'fixed'
    if (bid.test) return 'test'
    if (bid.rate === null) return 'no_rate'
    if (deps.held(supplier)) return 'hold'
    if (opd.enabled === 'shadow') return 'shadow'
    if (opd.share < 1 && shareOf(bid.auction, deps.seed) >= opd.share) return 'outside'
    return money.atFloor ? 'floor' : null
  }

  function ask(bid: EligibleBid, rate: number, inBa: number, at: number, chosen: Chosen): void {
    const facts: BidFacts = {
      ...bid.features,
      supplier,
      mode,
      inBa: inBa / rate,
      floor: bid.floor / rate,
    }
    try {
      const learner = learners.of(mode)
      const decision = learner.decide(facts, policy, deps.auctionSalt + bid.auction, at, random)
      const { factor } = decision
      if (!(factor > 0 && factor <= 1)) throw new RangeError('a factor outside of (0, 1]')
      stats.controlled(decision.guard, decision.theta, decision.lambda)
      chosen.decision = decision
      chosen.learner = learner
      if (armRules[chosen.arm].priced) {
        chosen.arm = decision.arm
        chosen.factor = decision.arm === 'holdout' ? 1 : Math.max(factor, minFactor)
        chosen.propensity = decision.propensity
      }
    } catch (error) {
      // a model that fails costs the optimisation, never the bid
      stats.learnerErrors++
      fault('learner', error, supplier)
      if (chosen.decision === null && armRules[chosen.arm].priced) chosen.arm = 'hold'
    }
  }

  function expose(chosen: Chosen, sent: number, at: number): Uint8Array {
    if (chosen.decision === null || chosen.learner === null) return none
    try {
      return chosen.learner.expose(chosen.decision, sent, at)
    } catch (error) {
      stats.learnerErrors++
      fault('learner', error, supplier)
      return none
    }
  }

  /** A log that fails costs its own entry: the bid has its price and its context. */
  function log(
    record: DecisionRecord,
    bid: EligibleBid,
    rate: number,
    money: Amounts,
    decision: Decision | null,
  ): void {
    try {
      deps.bidLog.put(record)
      deps.shared?.put(record)
    } catch (error) {
      fault('bid_log', error, supplier)
    }
    if (sink === null || bid.test) return
    try {
      sink.decided(entryOf(record, bid, rate, money, decision))
    } catch (error) {
      fault('decision_log', error, supplier)
    }
  }

  function entryOf(
    record: DecisionRecord,
    bid: EligibleBid,
    rate: number,
    money: Amounts,
    decision: Decision | null,
  ): DecisionEntry {
    const { publisher: _publisher, domain: _domain, ...features } = bid.features
    return {
      time: record.at,
      id: record.id,
      ssp: supplier,
      mode,
      arm: record.arm,
      propensity: record.propensity,
      density: record.arm === 'explored' ? (decision?.density ?? null) : null,
      in: money.in / rate,
      floor: bid.floor / rate,
      out: Number(record.outBa) / rate,
      low: Math.min(1, Math.max(minFactor, money.in > 0 ? bid.floor / money.in : 1)),
      winIn: record.winIn ?? null,
      winOut: record.winOut ?? null,
      theta: decision?.theta ?? null,
      lambda: decision?.lambda ?? null,
      guard: decision?.guard ?? null,
      publisher: record.publisher === '' ? null : hashed(record.publisher),
      domain: record.domain === '' ? null : hashed(record.domain),
      features,
      model: record.modelVersion,
    }
  }

  function one(bid: EligibleBid): PricedBid {
    const at = now()
    const money = amounts(bid.priceText, bid.price, bid.floor, bid.floorText, keep)
    const before = fixedArm(bid, money)
    const chosen: Chosen = {
      arm: before ?? 'treated',
      factor: 1,
      propensity: 1,
      decision: null,
      learner: null,
    }
    const rate = bid.rate ?? 1
    const asks = armRules[chosen.arm].asks && !money.atFloor
    if (asks) ask(bid, rate, money.in, at, chosen)
    const priceText = armRules[chosen.arm].priced ? lowered(money, chosen.factor) : null
    const outText = priceText ?? money.priceText
    const out = priceText === null ? bid.price : Number(priceText)
    const features = asks ? expose(chosen, out / rate, at) : none
    const { decision } = chosen
    const record: DecisionRecord = {
      id: deps.codec.nextId(),
      bidId: bid.bidId,
      supplier,
      mode,
      arm: chosen.arm,
      propensity: chosen.propensity,
      inBa: money.inText,
      outBa: outText,
      currency: bid.currency,
      at,
      modelVersion: learners.version(mode),
      publisher: cut(bid.features.publisher, longestPublisher),
      domain: cut(bid.features.domain, longestDomain),
      teaches: features.length > 0,
      features,
      floor: bid.floor,
      ...(decision === null ? {} : { winIn: decision.winIn, winOut: decision.winOut }),
      ...(decision?.theta === undefined ? {} : { theta: decision.theta }),
      ...(decision?.lambda === undefined ? {} : { lambda: decision.lambda }),
      ...(isGuard(decision?.guard) ? { guard: decision.guard } : {}),
    }
    if (bid.priceDspText !== undefined) record.priceDsp = plain(bid.priceDspText)
    const context = deps.codec.encode(record)
    if (!context.withFeatures) stats.contextsCut++
    log(record, bid, rate, money, decision)
    count(bid, record.arm, money.in, out)
    return { priceText, inText: money.inText, outText, context: context.text, mode }
  }

  function count(bid: EligibleBid, arm: Arm, inBa: number, out: number): void {
    if (bid.fixed !== undefined) stats.leftAlone(bid.fixed)
    const counts = bid.rate !== null && armRules[arm].money
    stats.priced(arm, counts ? inBa / bid.rate! : 0, counts ? out / bid.rate! : 0)
  }

  return (bid) => {
    try {
      return one(bid)
    } catch (error) {
      // whatever it was, the bid goes out as it came, its macros expanded
      stats.learnerErrors++
      fault('pricing', error, supplier)
      const text = plain(bid.priceText)
      return { priceText: null, inText: text, outText: text, context: '', mode }
    }
  }
}
