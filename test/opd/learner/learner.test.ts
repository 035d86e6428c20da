/** The learner by its public interface: bounds, honesty, what may train it and what may not. */
import * as fc from 'fast-check'
import t from 'tap'
import { type BidFacts, createLearner, type Policy } from '../../../opd/learner.ts'
import { source } from '../../support/random.ts'

const facts: BidFacts = { supplier: 'acme', mode: 'revenue', inBa: 2, floor: 0.5, publisher: 'p' }

/** Trains a learner on a market with a hidden win curve, and returns what it kept. */
function market(policy: Policy, bids: number, delay = 2000) {
  const learner = createLearner({ attributionWindow: 60_000 })
  const random = source(7)
  const curve = (price: number, inBa: number) =>
    0.05 + 0.85 / (1 + Math.exp(-6 * (Math.log(price / inBa) + 0.25)))
  const due: [number, Uint8Array, number][] = []
  let [kept, base, margin, spend] = [0, 0, 0, 0]
  for (let n = 0, now = 1e12; n < bids; n++, now += 20) {
    const inBa = 0.5 + 3 * random()
    const bid = {
      ...facts,
      inBa,
      floor: 0.1,
      mode: policy.targetMargin === undefined ? 'revenue' : 'margin',
    } as BidFacts
    const decision = learner.decide(bid, policy, `a${n}`, now, random)
    const features = learner.expose(decision, decision.outBa, now)
    const wins = curve(decision.outBa, inBa)
    if (random() < wins) due.push([now + delay, features, decision.outBa])
    while (due.length > 0 && due[0]![0] <= now) {
      const [, features, cleared] = due.shift()!
      learner.win(features, cleared, now)
    }
    if (n % 20 === 0) learner.advance(now)
    if (n < bids / 2 || decision.arm === 'holdout') continue
    kept += wins
    base += curve(inBa, inBa)
    margin += wins * (inBa - decision.outBa)
    spend += wins * inBa
  }
  return { learner, kept: kept / base, margin: margin / spend }
}

t.test('prices stay between floor or minFactor and in_ba, for any policy', (t) => {
  const learner = createLearner({})
  const number = fc.oneof(
    fc.double({ noNaN: false }),
    fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
  )
  fc.assert(
    fc.property(number, number, fc.string(), fc.double(), (inBa, floor, publisher, cleared) => {
      const decision = learner.decide(
        { ...facts, inBa, floor, publisher },
        { minFactor: 0.7, explore: 0.1 },
        publisher,
        cleared,
        source(3),
      )
      const features = learner.expose(decision, decision.outBa, cleared)
      learner.win(features, cleared, cleared)
      learner.withdraw(features, cleared)
      learner.advance(cleared)
      if (!(inBa > 0 && Number.isFinite(inBa))) return true
      const low = Math.min(inBa, Math.max(floor > 0 ? floor : 0, inBa * 0.7 * (1 - 1e-9)))
      return (
        decision.outBa >= low &&
        decision.outBa <= inBa &&
        decision.factor > 0 &&
        decision.factor <= 1
      )
    }),
    { numRuns: 3000 },
  )
  const after = learner.decide(facts, {}, 'k', 0, source(1))
  t.ok(Number.isFinite(after.outBa) && Number.isFinite(after.winIn))
  t.end()
})

t.test('a cold model lowers the price, a little', (t) => {
  const learner = createLearner({})
  for (const policy of [{ holdout: 0 }, { holdout: 0, explore: 0, minWinRate: 0.97 }])
    for (let n = 0; n < 50; n++) {
      const decision = learner.decide(facts, policy, `k${n}`, 0, () => 0.5)
      t.equal(decision.arm, 'treated')
      t.ok(decision.factor < 1 && decision.factor >= 0.9, `${decision.factor}`)
    }
  t.end()
})

t.test(
  'where wins have a floor, a lower price is expected to lose more than the curve says',
  (t) => {
    const decided = (policy: Policy) =>
      createLearner({}).decide(facts, { holdout: 0, explore: 0, ...policy }, 'k', 0, () => 0.5)
    const [bound, unbound] = [decided({ minWinRate: 0.97 }), decided({ minWinRate: 0 })]
    t.equal(bound.factor, unbound.factor, 'a cold model lowers both alike')
    t.equal(bound.winIn, unbound.winIn)
    const doubted = (unbound.winOut - bound.winOut) / (bound.winIn * (1 - bound.factor))
    t.ok(doubted > 0.02 && doubted < 0.2, `${doubted} of the cut`)
    t.end()
  },
)

t.test(
  'before any notice the prices of a few bids are drawn, and most bids keep their own',
  (t) => {
    const learner = createLearner({})
    const random = source(8)
    const policy: Policy = { minWinRate: 0.97, holdout: 0 }
    let [explored, lowered] = [0, 0]
    for (let n = 0; n < 5000; n++) {
      const decision = learner.decide(facts, policy, `k${n}`, n * 100, random)
      learner.expose(decision, decision.outBa, n * 100)
      if (n % 10 === 0) learner.advance(n * 100)
      if (decision.arm === 'explored') explored++
      else if (n > 1500 && decision.factor < 1) lowered++
    }
    t.ok(explored > 50 && explored < 500, `${explored} explored`)
    t.ok(lowered < 100, `${lowered} lowered, though nothing is known`)
    t.end()
  },
)

t.test('all bids of an auction are in the holdout, or none, in the share of the policy', (t) => {
  const learner = createLearner({})
  let holdouts = 0
  for (let n = 0; n < 20_000; n++) {
    const decisionOf = (publisher: string) =>
      learner.decide({ ...facts, publisher }, { holdout: 0.05 }, `key${n}`, 0, () => 0.5).arm
    const first = decisionOf('a')
    if ((first === 'holdout') !== (decisionOf('b') === 'holdout')) t.fail('one auction in two arms')
    if (first === 'holdout') holdouts++
  }
  t.ok(Math.abs(holdouts / 20_000 - 0.05) < 0.006, `${holdouts} of 20,000`)
  t.equal(learner.decide(facts, { holdout: 0 }, 'key', 0, () => 0.5).arm, 'treated')
  for (const inBa of [1e-10, 1e9, 1e300])
    for (const [holdout, arm] of [
      [0, 'treated'],
      [1, 'holdout'],
    ] as const) {
      const decision = learner.decide({ ...facts, inBa }, { holdout }, 'key', 0, () => 0.5)
      t.same(
        [decision.arm, decision.outBa],
        [arm, inBa],
        `a price that the model does not know: ${inBa}`,
      )
    }
  t.end()
})

t.test('the constraint of the mode is kept', (t) => {
  const { kept } = market(
    { minWinRate: 0.95, minSpend: 0.95, holdout: 0.03, explore: 0.005, minFactor: 0.5 },
    40_000,
  )
  t.ok(kept > 0.93, `kept ${kept}`)
  t.ok(kept < 0.995, `something is saved at ${kept}`)
  const { margin } = market(
    { targetMargin: 0.1, holdout: 0.02, explore: 0.005, minFactor: 0.5 },
    40_000,
  )
  t.ok(Math.abs(margin - 0.1) < 0.02, `margin ${margin}`)
  t.end()
})

t.test('when notices stop the price is the bid’s own, and when they come again it is not', (t) => {
  const { learner } = market({ minWinRate: 0, holdout: 0, explore: 0, minFactor: 0.5 }, 4000)
  const random = source(5)
  let now = 2e12
  const bid = () => {
    now += 20
    const decision = learner.decide(
      facts,
      { minWinRate: 0, holdout: 0, explore: 0 },
      `z${now}`,
      now,
      random,
    )
    return { decision, features: learner.expose(decision, decision.outBa, now) }
  }
  for (let n = 0; n < 2000; n++) bid()
  now += 120_000
  learner.advance(now)
  const silent = bid()
  t.equal(silent.decision.factor, 1)
  learner.win(silent.features, 1, now)
  t.ok(bid().decision.factor < 1)
  t.end()
})

t.test('a snapshot restores what was learned, a damaged one is refused', (t) => {
  const { learner } = market({ minWinRate: 0, holdout: 0, explore: 0 }, 3000)
  const snapshot = learner.snapshot()
  const again = createLearner({}, snapshot)
  const ask = (model: typeof learner) => model.decide(facts, { minWinRate: 0 }, 'k', 0, () => 0.5)
  t.equal(ask(again).winIn, ask(learner).winIn)
  for (const length of [0, 5, 100, snapshot.length - 1]) {
    const damaged = Uint8Array.from(snapshot)
    damaged[length]! ^= 1
    t.throws(() => createLearner({}, damaged), { name: 'SnapshotError' })
  }
  t.throws(() => createLearner({}, snapshot.subarray(0, 1000)), { name: 'SnapshotError' })
  t.end()
})

t.test('deltas may be merged in any order, and a damaged one changes nothing', (t) => {
  const deltas = [1, 2, 3].map((seed) => {
    const learner = createLearner({ attributionWindow: 1 })
    const random = source(seed)
    for (let n = 0; n < 300; n++) {
      const bid = { ...facts, publisher: `p${seed}-${n % 7}` }
      const decision = learner.decide(bid, { explore: 0.5 }, `k${n}`, n, random)
      const features = learner.expose(decision, decision.outBa, n)
      if (random() < 0.6) learner.win(features, 1, n)
    }
    learner.advance(1e9)
    return learner.delta()
  })
  const chance = (order: number[]) => {
    const learner = createLearner({})
    for (const place of order) learner.merge(deltas[place]!)
    return learner.decide({ ...facts, publisher: 'p1-0' }, {}, 'k', 0, () => 0.5).winIn
  }
  const first = chance([0, 1, 2])
  for (const order of [
    [2, 1, 0],
    [1, 0, 2],
    [2, 0, 1],
  ])
    t.ok(Math.abs(chance(order) - first) < 1e-4, order.join())
  t.not(first, chance([]))
  const learner = createLearner({})
  t.throws(() => learner.merge(deltas[0]!.subarray(3)), { name: 'DeltaError' })
  t.end()
})

t.test('a new learner does not depend on the other learners of the process', (t) => {
  const run = () => market({ minWinRate: 0.97, explore: 0.3 }, 4000).learner.snapshot()
  market({ minWinRate: 0.5, explore: 0.1 }, 4000)
  const first = run()
  t.ok(Buffer.from(run()).equals(first))
  t.end()
})
