/** Theta is raised for a fifth of the auctions, and what a bid says of lower prices does not hang on that. */
import t from 'tap'
import { bid, start, taught } from '../../support/learners.ts'

const policy = { minWinRate: 0.97, holdout: 0.2, explore: 0 }
const weightAt = 50

t.test('a fifth of the auctions is priced higher, and counts as the others do', (t) => {
  const [learner] = taught(1, 6000, 100)
  const now = start + 700_000
  learner!.decide(bid(2, 1), policy, 'binds', now, () => 0.9)
  // The multipliers do not change: only the auctions differ.
  learner!.freeze(true)
  const prices = new Map<number, number>()
  const weights = new Set<number>()
  let held = 0
  for (let n = 0; n < 1000; n++) {
    const decision = learner!.decide(bid(2, 1), policy, `auction ${n}`, now, () => 0.9)
    const features = learner!.expose(decision, decision.outBa, now)
    weights.add(features[weightAt]!)
    if (decision.arm === 'holdout') held++
    else prices.set(decision.outBa, (prices.get(decision.outBa) ?? 0) + 1)
  }
  t.equal(weights.size, 1, 'of the holdout as well')
  t.ok([...weights][0]! > 0)
  t.ok(held > 150 && held < 250, `${held} held out`)
  t.equal(prices.size, 2)
  const [high, low] = [...prices].sort(([one], [other]) => other - one)
  const share = high![1] / (high![1] + low![1])
  t.ok(share > 0.15 && share < 0.25, `${share}`)
  t.end()
})
