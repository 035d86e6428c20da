/** Whatever comes, prices stay in bounds, the model stays finite, and bytes stay small. */
import * as fc from 'fast-check'
import t from 'tap'
import { sigmoid } from '../../../opd/learner/curve/form.ts'
import { fineGrid, tickOf } from '../../../opd/learner/decide/price-grid.ts'
import { featureBytes } from '../../../opd/learner/features.ts'
import { type BidFacts, createLearner } from '../../../opd/learner.ts'
import { createContextCodec, Nonces } from '../../../opd/pricing/context.ts'
import type { DecisionRecord } from '../../../opd/types.ts'

const facts: BidFacts = { supplier: 'acme', mode: 'revenue', inBa: 1, floor: 0, publisher: 'p' }
const price = fc.oneof(
  fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
  fc.constantFrom(1e-6, 1e6, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, 5e-324, 1e308),
)
const clock = fc.oneof(
  fc.integer({ min: 0, max: 2e12 }),
  fc.constantFrom(-1, Number.NaN, Number.POSITIVE_INFINITY, 9e15, 0),
)

t.test('any sequence of prices, clocks and bytes leaves a finite model', (t) => {
  const step = fc.record({
    inBa: price,
    floor: price,
    sent: price,
    cleared: price,
    now: clock,
    later: clock,
    bytes: fc.uint8Array({ minLength: featureBytes, maxLength: featureBytes }),
    does: fc.constantFrom('win', 'withdraw', 'forged', 'twice', 'advance'),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
      const learner = createLearner({ attributionWindow: 60_000 })
      for (const { inBa, floor, sent, cleared, now, later, bytes, does } of steps) {
        const decision = learner.decide(
          { ...facts, inBa, floor },
          { minFactor: 0.3 },
          'k',
          now,
          () => 0.4,
        )
        if (inBa >= 1e-6 && inBa <= 1e6) {
          const lowest = Math.min(inBa, Math.max(floor > 0 ? floor : 0, inBa * 0.3 * (1 - 1e-9)))
          if (!(decision.outBa >= lowest && decision.outBa <= inBa)) return false
        }
        const features = learner.expose(decision, sent, now)
        if (features.length > featureBytes) return false
        if (does === 'win' || does === 'twice') learner.win(features, cleared, later)
        if (does === 'withdraw' || does === 'twice') learner.withdraw(features, later)
        if (does === 'forged') {
          bytes[0] = features[0] ?? 0x22
          learner.win(bytes, cleared, later)
          learner.withdraw(bytes, later)
        }
        if (does === 'advance') learner.advance(later)
      }
      learner.merge(learner.delta())
      const after = learner.decide(facts, {}, 'k', 1.7e12, () => 0.4)
      const again = createLearner({}, learner.snapshot())
      return (
        Number.isFinite(after.outBa) &&
        after.winIn > 0 &&
        after.winIn < 1 &&
        Number.isFinite(again.chance(facts, 0.5))
      )
    }),
    { numRuns: 60, seed: 5 },
  )
  t.end()
})

t.test('deltas of many nodes make the same model in any order, and are not sent on', (t) => {
  const deltas = Array.from({ length: 4 }, (_each, node) => {
    const learner = createLearner({ attributionWindow: 1000 })
    for (let n = 0; n < 200; n++) {
      const bid = { ...facts, inBa: 0.5 + ((n * 37 + node) % 11) / 10, publisher: `p${n % 3}` }
      const decision = learner.decide(bid, { explore: 0.3 }, `k${n}`, n, () => (n % 10) / 10)
      const features = learner.expose(decision, decision.outBa, n)
      if ((n + node) % 3 === 0) learner.win(features, decision.outBa, n)
    }
    learner.advance(1e6)
    return learner.delta()
  })
  const model = (order: readonly number[]) => {
    const learner = createLearner({})
    for (const place of order) learner.merge(deltas[place]!)
    const echo = learner.delta().length
    return { echo, chance: learner.chance({ ...facts, publisher: 'p1' }, 0.7) }
  }
  const { chance: usual } = model([0, 1, 2, 3])
  fc.assert(
    fc.property(fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }), (order) => {
      const { chance, echo } = model(order)
      return Math.abs(chance - usual) < 1e-4 && echo === 16
    }),
    { numRuns: 24, seed: 3 },
  )
  t.not(usual, model([0]).chance)
  t.end()
})

t.test('features fit into a context beside the longest names', (t) => {
  const learner = createLearner({})
  const longest: BidFacts = {
    ...facts,
    supplier: 's'.repeat(63),
    publisher: 'p'.repeat(64),
    domain: 'd'.repeat(96),
    placement: 'x'.repeat(500),
    deal: 'y'.repeat(500),
    dsp: 'z'.repeat(500),
  }
  const decision = learner.decide(longest, {}, 'k', 1.7e12, () => 0.4)
  const features = learner.expose(decision, 0.9, 1.7e12)
  t.equal(features.length, featureBytes)
  const codec = createContextCodec([{ id: 1, secret: Buffer.alloc(32, 7) }], 1000, new Nonces())
  const record: DecisionRecord = {
    id: codec.nextId(),
    bidId: 'b'.repeat(200),
    supplier: longest.supplier,
    mode: 'revenue',
    via: 'proxy',
    arm: 'treated',
    propensity: 0.123456789,
    inBa: '12.345678',
    outBa: '11.345678',
    currency: 'USD',
    decidedAt: 1.7e12,
    modelVersion: 4e9,
    publisher: longest.publisher!,
    domain: longest.domain!,
    trains: true,
    features,
    winIn: 0.4,
    winOut: 0.3,
  }
  const { text, withFeatures } = codec.encode(record)
  t.ok(withFeatures, 'the features are in it')
  t.ok(text.length <= 512, `${text.length} characters`)
  t.end()
})

t.test('prices of the grid are round, lie in their own tick, and rise', (t) => {
  const found = Array.from(
    { length: 6 * 184 },
    (_each, n) => fineGrid.price[tickOf(Math.log(0.001)) + n]!,
  )
  t.ok(found.every((chance, n) => n === 0 || chance > found[n - 1]!))
  t.ok(found.every((chance, n) => tickOf(Math.log(chance)) === tickOf(Math.log(0.001)) + n))
  for (const round of [0.01, 0.05, 0.25, 0.5, 0.7, 1, 1.5, 2.5, 10, 75])
    t.ok(
      found.some((chance) => Math.abs(chance - round) < 1e-9 * round),
      `${round} is tried`,
    )
  t.end()
})

t.test('the table of the logistic function is close to it', (t) => {
  let worst = 0
  for (let x = -20; x < 20; x += 0.0137)
    worst = Math.max(worst, Math.abs(sigmoid(x) - 1 / (1 + Math.exp(-x))))
  t.ok(worst < 5e-6, `off by ${worst}`)
  t.equal(sigmoid(Number.NaN), sigmoid(-99))
  t.end()
})
