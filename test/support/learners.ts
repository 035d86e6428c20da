/** One market for any number of learners: how far they are from it, and from each other. */
import { OnlineLearner } from '../../opd/learner/learner.ts'
import type { BidFacts, Learner, Policy } from '../../opd/learner.ts'
import { source } from './random.ts'

export const pure: Policy = { minWinRate: 0, minSpend: 0, holdout: 0, explore: 0 }
/** All within one quarter of the day: the hour is a feature. */
export const start = 1e12
export const long = 2e6

export const bid = (inBa: number, publisher: number): BidFacts => ({
  supplier: 'acme',
  mode: 'revenue',
  inBa,
  floor: 0,
  publisher: `p${publisher}`,
  placement: `p${publisher}/${publisher % 3}`,
  country: ['US', 'DE', 'FR'][publisher % 3]!,
})
const wins = (price: number, publisher: number) =>
  0.9 / (1 + Math.exp(-7 * Math.log(price / (0.7 + 0.1 * publisher))))
const asked = Array.from({ length: 24 }, (_each, n) => [0.6 + 0.05 * n, n % 8] as const)
export const chances = (learner: Learner) =>
  asked.map(([price, publisher]) => learner.chance(bid(2, publisher), price))
export const off = (learner: Learner) => {
  const [sum, expected] = [
    chances(learner),
    asked.map(([price, publisher]) => wins(price, publisher)),
  ]
  return Math.sqrt(
    expected.reduce((all, chance, n) => all + (chance - sum[n]!) ** 2, 0) / expected.length,
  )
}
export const apart = (one: Learner, other: Learner) => {
  const otherChances = chances(other)
  return Math.max(...chances(one).map((chance, n) => Math.abs(chance - otherChances[n]!)))
}

/** The same bids at the same prices, whoever sends them; any node gets the notice of a win, 2 s later; deltas every 5 s. */
export function trained(
  nodes: number,
  bids: number,
  every: number,
  settled = true,
): OnlineLearner[] {
  const learners = Array.from({ length: nodes }, () => new OnlineLearner({}))
  const [random, where] = [source(11), source(12)]
  const due: [number, Uint8Array, number][] = []
  const any = () => learners[Math.floor(where() * nodes)]!
  for (let n = 0; n < bids; n++) {
    const now = start + n * every
    const publisher = Math.floor(random() * 8)
    const facts = bid(1 + random(), publisher)
    const learner = any()
    const decision = learner.decide(facts, pure, `k${n}`, now, () => 0.9)
    const price = facts.inBa * (0.5 + 0.5 * random())
    const features = learner.expose(decision, price, now)
    if (random() < wins(price, publisher)) due.push([now + 2000, features, price])
    while (due.length > 0 && due[0]![0] <= now) any().win(due[0]![1], due.shift()![2], now)
    if ((n * every) % 500 < every) for (const learner of learners) learner.advance(now)
    if (nodes === 1 || (n * every) % 5000 >= every) continue
    exchange(learners)
  }
  // Notices in flight arrive, pending exposures are settled, and all deltas are exchanged.
  for (let round = 1; round <= 3; round++) {
    for (const [, features, price] of due.splice(0))
      any().win(features, price, start + bids * every)
    for (const learner of learners) learner.advance(start + long * round)
    if (nodes > 1 && settled) exchange(learners)
  }
  return learners
}

function exchange(learners: readonly Learner[]): void {
  const deltas = learners.map((learner) => learner.delta())
  deltas.forEach((delta, from) => {
    learners.forEach((learner, to) => {
      if (to !== from) learner.merge(delta)
    })
  })
}
