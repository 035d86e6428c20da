/** Decides the price of one bid: its own price (holdout), a random one (explored), or the best by curve and multipliers. */

import { hashText } from '../../base/hash.ts'
import type { BidFacts, Decision, Policy } from '../../learner-types.ts'
import { free } from '../control/multipliers.ts'
import type { SupplierState } from '../control/supplier-state.ts'
import type { SupplierStates } from '../control/supplier-states.ts'
import type { Curve } from '../curve/curve.ts'
import { keyAt } from '../curve/priors.ts'
import { isPrice, OwnDecision } from '../exposure.ts'
import { featureBytes, hasFloor, hashAt, supplierKey } from '../features.ts'
import { FeatureCache } from './feature-cache.ts'
import { type PriceQuery, PriceSearch } from './price-search.ts'

/**
 * A supplier without so many wins at lower prices has its first bids sent at this factor, so that something is learned without
 * exploration as well. Where notices are late, so many bids are all.
 */
const cold = { wins: 5, bids: 300, factor: 0.95 }
/** The lowest factor that is explored: below it little is won, and no price is chosen. */
const exploredLeast = 0.5
/**
 * Where wins or spend have a floor, a price is expected to lose so much more than the curve says, in proportion to its cut. The price
 * is chosen where the curve errs downwards: prices with an expected loss of .8 to 1.6 % lost 3 times that where they were cut by .1 to .2,
 * and 5 to 7 times where they were cut by .3 to .6. Chosen on 40 markets drawn at random, confirmed on 60 others (bench/opd/README.md).
 */
const doubt = 0.08
/** Share of explored bids if the policy has none: the default of the configuration. */
const usualExplore = 0.005

/**
 * `value` if it is a number within the bounds, else `otherwise`.
 *
 * @param low the least value that is taken
 * @param high the largest one
 */
export const sound = (value: number | undefined, low: number, high: number, otherwise: number) =>
  value !== undefined && value >= low && value <= high ? value : otherwise

/** The random draws of an auction, by a hash of its key: all bids of a response share them. */
class AuctionDraws {
  /** Uniform in [0, 1): the auction is in the holdout if it is below the holdout's share. */
  holdout = 0
  /** Uniform in [0, 1): bids that would be lowered are held if it is below their share. */
  held = 0
  private key: string | null = null

  loadKey(key: string): void {
    if (this.key === key) return
    this.key = key
    this.holdout = hashText(key, 0x27d4eb2f) / 2 ** 32
    this.held = hashText(key, 0x165667b1) / 2 ** 32
  }
}

export class Decider {
  private readonly curve: Curve
  private readonly suppliers: SupplierStates
  private readonly search = new PriceSearch()
  private readonly features = new FeatureCache()
  private readonly auction = new AuctionDraws()
  private readonly query: PriceQuery = { inBa: 0, lowest: 0, reward: 0, saving: 0, doubt: 0 }

  constructor(curve: Curve, suppliers: SupplierStates) {
    this.curve = curve
    this.suppliers = suppliers
  }

  /**
   * Decides as `Learner.decide` says.
   *
   * @param isFrozen the decision changes no multiplier
   */
  decide(
    facts: BidFacts,
    policy: Policy,
    key: string,
    now: number,
    random: () => number,
    isFrozen: boolean,
  ): Decision {
    const { features, auction, curve } = this
    const { inBa, mode } = facts
    auction.loadKey(key)
    const holdout = sound(policy.holdout, 0, 1, 0)
    const isHoldout = holdout > 0 && auction.holdout < holdout
    const isKnown = isPrice(inBa)
    const bytes = isKnown
      ? features.loadFeatures(facts, now > 0 ? now : 0)
      : new Uint8Array(featureBytes)
    const decision = new OwnDecision(facts, bytes)
    if (isHoldout) {
      decision.arm = 'holdout'
      decision.propensity = holdout
    }
    // A price that the model does not know is kept. Its bid belongs to the arm of its auction nevertheless.
    if (!isKnown) return decision
    curve.loadBid(features.keys, Math.log(inBa), hasFloor(bytes))
    const floor = facts.floor > 0 ? facts.floor : 0
    if (floor >= inBa) return this.unchanged(decision)
    const state = this.suppliers.stateOf(
      supplierKey(hashAt(bytes, keyAt.supplier), mode === 'margin'),
    )
    state.loadPolicy(policy, mode)
    this.query.doubt = mode === 'margin' || free(policy) ? 0 : doubt
    decision.theta = state.theta
    decision.lambda = state.lambda
    decision.guard = state.guards.guard
    const least = Math.max(sound(policy.minFactor, 0, 1, 0), floor / inBa)
    const lowest = Math.max(floor, inBa * Math.max(least, state.guards.lowest(least)))
    const isCold = state.exposures < cold.bids && state.guards.wins < cold.wins
    if (isCold) this.lowerTo(decision, Math.max(lowest, inBa * cold.factor))
    else this.choose(decision, state, lowest)
    decision.weight = decision.winIn > 0 ? 1 - decision.winOut / decision.winIn : 0
    if (isHoldout) return this.keepPrice(decision)
    const explore = state.exploration(sound(policy.explore, 0, 1, usualExplore))
    const explores = explore > 0 && random() < explore
    decision.propensity = (1 - holdout) * (explores ? explore : 1 - explore)
    if (explores) this.explore(decision, Math.max(least, exploredLeast), random)
    else if (!isCold && decision.outBa < inBa && auction.held < state.heldShare) {
      decision.held = true
      this.keepPrice(decision)
    }
    const { outBa: out, winIn, winOut } = decision
    if (!isFrozen) state.decided(policy, mode, { inBa, out, winIn, winOut, explored: explores })
    return decision
  }

  private lowerTo(decision: OwnDecision, price: number): void {
    decision.winIn = this.curve.wins(decision.inBa)
    decision.outBa = Math.min(price, decision.inBa)
    decision.factor = decision.outBa / decision.inBa
    this.expectWins(decision)
  }

  /** The win probability at a price that was not searched for. */
  private expectWins(decision: OwnDecision): void {
    const { winIn, outBa, factor } = decision
    const won = Math.min(winIn, this.curve.wins(outBa))
    decision.winOut = Math.max(0, won - this.query.doubt * winIn * (1 - factor))
  }

  private keepPrice(decision: OwnDecision): Decision {
    decision.outBa = decision.inBa
    decision.factor = 1
    decision.winOut = decision.winIn
    return decision
  }

  private unchanged(decision: OwnDecision): Decision {
    decision.winIn = decision.winOut = this.curve.wins(decision.inBa)
    return decision
  }

  /** The factor is uniform over the permitted ones. */
  private explore(decision: OwnDecision, least: number, random: () => number): void {
    decision.arm = 'explored'
    decision.density = 1 / (1 - least)
    decision.factor = least + random() * (1 - least)
    decision.outBa = Math.min(decision.inBa, decision.inBa * decision.factor)
    this.expectWins(decision)
  }

  private choose(decision: OwnDecision, state: SupplierState, lowest: number): void {
    const { curve, search, query } = this
    const { inBa } = decision
    if (lowest >= inBa) {
      this.unchanged(decision)
      return
    }
    query.inBa = inBa
    query.lowest = lowest
    query.reward = state.theta * inBa + state.lambda
    query.saving = curve.saving(decision.second)
    decision.outBa = Math.max(lowest, search.best(curve, query))
    decision.winIn = search.winIn
    decision.winOut = search.winOut
    decision.factor = decision.outBa / inBa
  }
}
