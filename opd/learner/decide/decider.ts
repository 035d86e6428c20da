/** The price of one bid: its own (holdout), a drawn one (explored), or the best by curve and multipliers. */

import type { SupplierState } from '../control/supplier-state.ts'
import type { SupplierStates } from '../control/supplier-states.ts'
import type { Curve } from '../curve/curve.ts'
import { keyAt } from '../curve/priors.ts'
import { isPrice, OwnDecision } from '../exposure.ts'
import { featureBytes, hasFloor, hashAt, supplierKey } from '../features.ts'
import type { BidFacts, Decision, Policy } from '../types.ts'
import { AuctionDraws, FeatureCache } from './feature-cache.ts'
import { type Asked, PriceSearch } from './price-search.ts'

/** Bids that go out below their own price before the first win; without one by then its own is better. */
const coldFor = 1000
/** No lower factor is explored: little is won there, and nothing is chosen. */
const exploredLeast = 0.5
/** Explored prices near the chosen one lie within this share of it. */
const nearBy = 0.2
/** What theta is taken to change at least: the model may be wrong where it expects nothing. */
const [leastApart, leastVariance] = [0.02, 0.02]
/** If the policy has none: the default of the configuration. */
const usualExplore = 0.005

/** A number within bounds; anything else is `otherwise`. */
export const sound = (value: number | undefined, low: number, high: number, otherwise: number) =>
  value !== undefined && value >= low && value <= high ? value : otherwise

export class Decider {
  private readonly curve: Curve
  private readonly controls: SupplierStates
  private readonly chooser = new PriceSearch()
  private readonly described = new FeatureCache()
  private readonly auction = new AuctionDraws()
  private readonly asked: Asked = { inBa: 0, lowest: 0, reward: 0, other: 0, saving: 0 }

  constructor(curve: Curve, controls: SupplierStates) {
    this.curve = curve
    this.controls = controls
  }

  /** `still`: no multiplier moves. */
  decide(
    facts: BidFacts,
    policy: Policy,
    key: string,
    now: number,
    random: () => number,
    still: boolean,
  ): Decision {
    const { described, auction, curve } = this
    const { inBa, mode } = facts
    if (!isPrice(inBa)) return new OwnDecision(facts, new Uint8Array(featureBytes))
    const bytes = described.load(facts, now > 0 ? now : 0)
    const decision = new OwnDecision(facts, bytes)
    curve.load(described.keys, Math.log(inBa), hasFloor(bytes))
    auction.load(key)
    const holdout = sound(policy.holdout, 0, 1, 0)
    const held = holdout > 0 && auction.holdout < holdout
    if (held) {
      decision.arm = 'holdout'
      decision.propensity = holdout
    }
    const floor = facts.floor > 0 ? facts.floor : 0
    if (floor >= inBa) return this.unchanged(decision)
    const state = this.controls.of(supplierKey(hashAt(bytes, keyAt.supplier), mode === 'margin'))
    state.load(policy, mode, hashAt(bytes, keyAt.publisher), hashAt(bytes, keyAt.dsp))
    decision.raised = auction.raised
    const raise = decision.raised ? state.raising() : 1
    decision.theta = 1 + (state.theta - 1) * raise
    decision.lambda = state.lambda * raise
    decision.guard = state.guards.guard
    const least = Math.max(sound(policy.minFactor, 0, 1, 0), floor / inBa)
    const lowest = Math.max(floor, inBa * Math.max(least, state.guards.lowest(least)))
    if (held) {
      // The weight with which its win is compared with those of lower prices.
      this.choose(decision, state, lowest)
      decision.outBa = inBa
      decision.factor = 1
      decision.winOut = decision.winIn
      return decision
    }
    const explore = state.exploration(sound(policy.explore, 0, 1, usualExplore))
    const explores = explore > 0 && random() < explore
    decision.propensity = (1 - holdout) * (explores ? explore : 1 - explore)
    this.choose(decision, state, lowest)
    if (explores) this.explore(decision, Math.max(least, exploredLeast), state.exploresNear, random)
    const { outBa: out, winIn, winOut, raised } = decision
    if (!still) state.decided(policy, mode, { inBa, out, winIn, winOut, raised })
    return decision
  }

  private unchanged(decision: OwnDecision): Decision {
    decision.winIn = decision.winOut = this.curve.wins(decision.inBa)
    return decision
  }

  /** Uniform over the permitted factors, or (share `near`) over those near the chosen one: a mixture of two densities. */
  private explore(decision: OwnDecision, least: number, near: number, random: () => number): void {
    decision.arm = 'explored'
    const from = Math.max(least, decision.factor * (1 - nearBy))
    const to = Math.min(1, decision.factor * (1 + nearBy))
    const [low, high] = random() < near ? [from, to] : [least, 1]
    const factor = low + random() * (high - low)
    decision.density =
      (1 - near) / (1 - least) + (factor >= from && factor <= to ? near / (to - from) : 0)
    decision.factor = factor
    decision.outBa = Math.min(decision.inBa, decision.inBa * factor)
    decision.winOut = Math.min(decision.winIn, this.curve.wins(decision.outBa))
  }

  private choose(decision: OwnDecision, state: SupplierState, lowest: number): void {
    const { curve, chooser, asked } = this
    const { inBa } = decision
    if (lowest >= inBa) {
      this.unchanged(decision)
      return
    }
    // What is quite unknown is not left at its own price: it would never be known.
    if (state.guards.winsKnown === 0 && state.exposures < coldFor) {
      decision.winIn = curve.wins(inBa)
      decision.winOut = Math.min(decision.winIn, curve.wins(lowest))
      decision.outBa = lowest
    } else {
      const extra = (state.theta - 1) * inBa + state.lambda
      const [usual, raised] = [inBa + extra, inBa + extra * state.raising()]
      asked.inBa = inBa
      asked.lowest = lowest
      asked.reward = decision.raised ? raised : usual
      asked.other = decision.raised ? usual : raised
      asked.saving = curve.saving(decision.second)
      decision.outBa = Math.max(lowest, chooser.best(curve, asked))
      decision.winIn = chooser.winIn
      decision.winOut = chooser.winOut
      decision.weight = this.weigh(chooser.winBetween, chooser.winApart)
    }
    decision.factor = decision.outBa / inBa
  }

  /** Of an auction in comparisons: what theta is expected to change over the variance of a win. */
  weigh(chance: number, apart: number): number {
    return (apart + leastApart) / (chance * (1 - chance) + leastVariance)
  }
}
