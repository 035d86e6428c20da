/**
 * The learner with one half of it replaced by the truth: what its curve could earn under a perfect control, and its control with a
 * perfect curve. The difference to the learner itself is what that half loses.
 */
import { Multipliers } from '../../opd/learner/control/multipliers.ts'
import { Curve } from '../../opd/learner/curve/curve.ts'
import { OnlineLearner } from '../../opd/learner/learner.ts'
import type { Market, Offer } from './market.ts'
import { replaced } from './parts.ts'

/** `true loss`: the multipliers see the loss of each price. `true curve`: prices are chosen by the curves of the market. */
export const controls = ['learner', 'true loss', 'true curve'] as const
export type Control = (typeof controls)[number]

const certain = { mean: 1, deviation: 0 }
const known = { wins: certain, spend: certain, trust: 1 }
const bounded = (chance: number) => Math.min(1 - 1e-4, Math.max(1e-4, chance))

/** The market whose offers the replaced methods see, and a function that restores them. */
export function controlled(market: Market, control: Control): { market: Market; restore(): void } {
  if (control === 'learner') return { market, restore: () => undefined }
  let offer: Offer | null = null
  const watched: Market = {
    ...market,
    offer(n, now) {
      offer = market.offer(n, now)
      return offer
    },
  }
  const chance = (price: number) => bounded(offer!.wins(Math.min(price, offer!.facts.inBa)))
  const restores = control === 'true loss' ? seeingLoss(chance) : seeingCurve(chance)
  return {
    market: watched,
    restore: () => {
      for (const restore of restores) restore()
    },
  }
}

function seeingLoss(chance: (price: number) => number) {
  const { decided } = Multipliers.prototype
  return [
    replaced(
      Multipliers.prototype,
      'decided',
      function (this: Multipliers, policy, mode, bid, evidence, _known, limited) {
        const seen = { ...bid, winIn: chance(bid.inBa), winOut: chance(bid.out) }
        decided.call(this, policy, mode, seen, evidence, known, limited)
      },
    ),
  ]
}

function seeingCurve(chance: (price: number) => number) {
  const { wins } = Curve.prototype
  return [
    replaced(OnlineLearner.prototype, 'refitJob', () => null),
    replaced(Curve.prototype, 'wins', function (this: Curve, price) {
      // Sets the tick.
      wins.call(this, price)
      return chance(price)
    }),
    replaced(Curve.prototype, 'sweep', ({ price }, ticks, out, from, to, by) => {
      for (let n = from; n <= to; n += by) if (!(out[n]! >= 0)) out[n] = chance(price[ticks[n]!]!)
    }),
  ]
}
