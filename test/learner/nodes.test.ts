/** Many nodes are one learner: what each is taught all are taught, once, in any order, by rows or by sums. */
import * as fc from 'fast-check'
import t from 'tap'
import { Evidence } from '../../opd/learner/evidence.ts'
import { Segments } from '../../opd/learner/segments.ts'
import { SupplierState } from '../../opd/learner/supplier.ts'
import { rowBytes, toldMost } from '../../opd/learner/taught.ts'
import { type BidFacts, createLearner, type Learner, type Policy } from '../../opd/learner.ts'

const pure: Policy = { minWinRate: 0, minSpend: 0, holdout: 0, explore: 0 }
/** All within one quarter of the day: the hour is a feature. */
const start = 1e12
const long = 2e6
const deltaHead = 16

function source(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

const bid = (inBa: number, publisher: number): BidFacts => ({
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
const chances = (learner: Learner) =>
  asked.map(([price, publisher]) => learner.chance!(bid(2, publisher), price))
const off = (learner: Learner) => {
  const [sum, of] = [chances(learner), asked.map(([price, publisher]) => wins(price, publisher))]
  return Math.sqrt(of.reduce((all, chance, n) => all + (chance - sum[n]!) ** 2, 0) / of.length)
}
const apart = (one: Learner, other: Learner) => {
  const of = chances(other)
  return Math.max(...chances(one).map((chance, n) => Math.abs(chance - of[n]!)))
}

/** The same bids at the same prices, whoever sends them; wins are told to any node, 2 s later; deltas every 5 s. */
function taught(nodes: number, bids: number, every: number, settled = true): Learner[] {
  const learners = Array.from({ length: nodes }, () => createLearner({}))
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
    if ((n * every) % 500 < every) for (const each of learners) each.advance(now)
    if (nodes === 1 || (n * every) % 5000 >= every) continue
    exchange(learners)
  }
  // What is on its way comes, what waits is settled, and all is told.
  for (let round = 1; round <= 3; round++) {
    for (const [, features, price] of due.splice(0))
      any().win(features, price, start + bids * every)
    for (const each of learners) each.advance(start + long * round)
    if (nodes > 1 && settled) exchange(learners)
  }
  return learners
}

function exchange(learners: readonly Learner[]): void {
  const deltas = learners.map((each) => each.delta())
  deltas.forEach((delta, from) => {
    learners.forEach((each, to) => {
      if (to !== from) each.merge(delta)
    })
  })
}

t.test('eight nodes know what one would that saw all', (t) => {
  const [one] = taught(1, 24_000, 10)
  const alone = off(one!)
  for (const [node, learner] of taught(8, 24_000, 10).entries()) {
    const among = off(learner)
    t.ok(among < alone + 0.02, `node ${node} is ${among} off, one alone ${alone}`)
  }
  t.end()
})

t.test('what one node hears is no part of what it tells, told by rows or by sums', (t) => {
  for (const bids of [300, toldMost + 500]) {
    const [told] = taught(1, 900, 40)
    const heard = told!.delta()
    const [alone, among] = [createLearner({}), createLearner({})]
    for (let n = 0; n < bids; n++) {
      const facts = bid(1 + (n % 10) / 10, n % 8)
      if (n === bids / 2) among.merge(heard)
      for (const learner of [alone, among]) {
        const decision = learner.decide(facts, pure, `k${n}`, start + n, () => 0.9)
        const features = learner.expose(decision, 0.8 * facts.inBa, start + n)
        if (n % 3 === 0) learner.win(features, 0.8 * facts.inBa, start + n)
      }
    }
    for (const learner of [alone, among])
      for (let n = 1; n < 4; n++) learner.advance(start + n * long)
    const [from, also] = [alone.delta(), among.delta()]
    t.equal(from.length > toldMost * rowBytes, false, 'bounded')
    const [one, other] = [createLearner({}), createLearner({})]
    one.merge(from)
    other.merge(also)
    t.ok(apart(one, other) < 0.06, `${bids}: ${apart(one, other)}`)
    t.ok(apart(one, createLearner({})) > 0.1, 'it tells something')
    t.equal(among.delta().length, deltaHead)
  }
  t.end()
})

t.test('rows of other nodes are taught in one order, whichever delta came first', (t) => {
  const deltas = taught(4, 1200, 20, false).map((learner) => learner.delta())
  const model = (order: readonly number[]) => {
    const learner = createLearner({})
    for (const at of order) learner.merge(deltas[at]!)
    return chances(learner)
  }
  const usual = model([0, 1, 2, 3])
  fc.assert(
    fc.property(fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }), (order) => {
      t.same(model(order), usual)
    }),
    { numRuns: 12, seed: 3 },
  )
  t.end()
})

t.test('a win told elsewhere takes its exposure out: it is taught once', (t) => {
  const [sender, teller] = [createLearner({}), createLearner({})]
  const decision = sender.decide(bid(2, 1), pure, 'k', start, () => 0.9)
  const features = sender.expose(decision, 1.5, start)
  teller.win(features, 1.5, start + 100)
  sender.merge(teller.delta())
  const after = chances(sender)
  sender.advance(start + long)
  t.same(chances(sender), after, 'nothing waited any more')
  // Exposure and win: what one node has that was told itself.
  const alone = createLearner({})
  alone.win(
    alone.expose(
      alone.decide(bid(2, 1), pure, 'k', start, () => 0.9),
      1.5,
      start,
    ),
    1.5,
    start + 100,
  )
  t.ok(apart(alone, sender) < 1e-9)
  const before = chances(teller)
  teller.merge(sender.delta())
  t.ok(
    chances(teller).every((chance, n) => chance < before[n]!),
    'the other heard of the exposure',
  )
  t.end()
})

t.test('an exposure that is withdrawn elsewhere is undone here', (t) => {
  const [sender, other] = [createLearner({}), createLearner({})]
  const decision = sender.decide(bid(2, 1), pure, 'k', start, () => 0.9)
  const features = sender.expose(decision, 1.5, start)
  for (let n = 0; n < 5; n++) sender.advance(start + long * n)
  other.merge(sender.delta())
  const cold = chances(createLearner({}))
  const moved = chances(other)
  t.not(moved[0], cold[0])
  sender.withdraw(features, start + 6 * long)
  other.merge(sender.delta())
  other.advance(start + 4 * long)
  t.notSame(chances(other), moved)
  t.ok(apart(other, sender) < 1e-9, 'as there')
  t.end()
})

t.test('in slices: merged rows wait for advance, a snapshot carries them', (t) => {
  const [told] = taught(1, 2500, 40)
  const delta = told!.delta()
  const all = createLearner({})
  all.merge(delta)
  const learner = createLearner({ slices: true })
  learner.merge(delta)
  const cold = chances(createLearner({}))
  t.same(chances(learner), cold, 'not yet')
  learner.advance(start)
  t.notSame(chances(learner), cold)
  t.ok(apart(learner, all) > 1e-6, 'some of it')
  const again = createLearner({}, learner.snapshot())
  t.ok(apart(again, all) < 1e-6, 'the rest was in the snapshot')
  for (let n = 0; n < 3; n++) learner.advance(start)
  t.ok(apart(learner, all) < 1e-9)
  t.end()
})

t.test('exploration decays with wins told to any node', (t) => {
  const [evidence, segments] = [new Evidence(), new Segments()]
  const [here, there] = [
    new SupplierState(evidence, segments),
    new SupplierState(evidence, segments),
  ]
  const outcome = {
    arm: 'treated',
    lnF: -0.1,
    lnIn: 0,
    sent: 0.9,
    winIn: 0.5,
    winOut: 0.4,
    at: start,
  } as const
  const before = here.curiosity
  for (let n = 0; n < 400; n++) there.won(outcome, 0.9, start, 0, 0)
  here.merge(there.evidence.fresh, start, 1000)
  t.ok(here.curiosity < before / 5)
  t.equal(here.curiosity, there.curiosity)
  t.end()
})

t.test('a snapshot in slices is of one moment, whatever comes between', (t) => {
  const learner = taught(1, 3000, 40)[0]!
  const before = chances(learner)
  const [other] = taught(1, 1500, 30)
  let [slices, takings] = [0, 0]
  let pieces: Uint8Array[] = []
  for (const made = learner.snapshotting!(() => takings++); ; slices++) {
    const { done, value } = made.next()
    if (done) {
      pieces = value
      break
    }
    if (takings === 1) {
      learner.merge(other!.delta())
      learner.win(
        learner.expose(
          learner.decide(bid(2, 1), pure, 'k', start, () => 0.9),
          1,
          start,
        ),
        1,
        start,
      )
    }
  }
  t.ok(slices > 10, `${slices} slices`)
  t.equal(takings, 1)
  t.notSame(chances(learner), before)
  t.same(chances(createLearner({}, new Uint8Array(Buffer.concat(pieces)))), before)
  t.same(chances(createLearner({}, learner.snapshot())), chances(learner))
  t.end()
})
