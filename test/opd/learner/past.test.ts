/** Bids that are pending on no node, and bids that competed at another price than was sent. */
import t from 'tap'
import { type BidFacts, createLearner } from '../../../opd/learner.ts'
import { source } from '../../support/random.ts'

const facts: BidFacts = { supplier: 'acme', mode: 'revenue', inBa: 2, floor: 0.5, publisher: 'p' }
const start = 1e12

/** A learner, and the features of a bid that it exposed at a price. */
function exposed(price: number) {
  const learner = createLearner({ attributionWindow: 60_000 })
  const decision = learner.decide(facts, { minFactor: 0.7 }, 'a', start, source(3))
  return { learner, features: learner.expose(decision, price, start) }
}
const chances = (learner: ReturnType<typeof createLearner>) =>
  [1, 1.5, 2].map((price) => learner.chance(facts, price))

t.test('a win whose lower price was not applied trains as a bid at its own price', (t) => {
  const [lowered, unlowered] = [exposed(1.5), exposed(2)]
  lowered.learner.winUnapplied(lowered.features, 2, start + 1000)
  unlowered.learner.win(unlowered.features, 2, start + 1000)
  t.same(chances(lowered.learner), chances(unlowered.learner))
  // The exposure at the lower price does not count as lost later.
  lowered.learner.advance(start + 120_000)
  unlowered.learner.advance(start + 120_000)
  t.same(chances(lowered.learner), chances(unlowered.learner))
  t.end()
})

for (const [title, cleared] of [
  ['a win', 1.5],
  ['a loss', null],
] as const)
  t.test(`${title} of a bid that another node priced trains like one of this node`, (t) => {
    const { learner, features } = exposed(1.5)
    const home = createLearner({ attributionWindow: 60_000 })
    const before = chances(home)
    home.settlePast(features, { cleared, applied: true }, start + 1000)
    if (cleared === null) learner.lose(features, null, start + 1000)
    else learner.win(features, cleared, start + 1000)
    t.notSame(chances(home), before)
    t.same(chances(home), chances(learner))
    t.end()
  })

t.test('a win of the past whose lower price was not applied trains at the own price', (t) => {
  const { features } = exposed(1.5)
  const unlowered = exposed(2)
  const home = createLearner({ attributionWindow: 60_000 })
  home.settlePast(features, { cleared: 2, applied: false }, start + 1000)
  unlowered.learner.win(unlowered.features, 2, start + 1000)
  t.same(chances(home), chances(unlowered.learner))
  t.end()
})

t.test('a bid of the past trains other nodes by the delta', (t) => {
  const { features } = exposed(1.5)
  const [home, other] = [createLearner({}), createLearner({})]
  home.settlePast(features, { cleared: 1.5, applied: true }, start + 1000)
  other.merge(home.delta())
  t.same(chances(other), chances(home))
  t.end()
})
