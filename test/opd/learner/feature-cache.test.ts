/** What consecutive bids share is hashed once: a decision is the one that a learner makes that saw no bid before it. */
import t from 'tap'
import { type BidFacts, createLearner } from '../../../opd/learner.ts'

const hour = 3_600_000
const start = 1_800_000_000_000
const policy = { minWinRate: 0.97, holdout: 0.3, explore: 0, minFactor: 0.5 }
const facts: BidFacts = {
  supplier: 'acme',
  mode: 'revenue',
  inBa: 2,
  floor: 0,
  publisher: 'pub-1',
  domain: 'news.example',
  placement: 'top',
  country: 'NLD',
  device: '4',
  format: 'banner',
  size: '300x250',
  dsp: 'dsp-1',
  seat: 'seat-1',
  deal: 'deal-1',
}
/** One change a bid, and back again. */
const changes: Partial<BidFacts>[] = [
  {},
  { inBa: 3 },
  { floor: 1.2 },
  { floor: 0.3 },
  { supplier: 'other' },
  { publisher: 'pub-2' },
  { domain: 'sport.example' },
  { placement: 'side' },
  { country: 'DEU' },
  { device: '5' },
  { format: 'video' },
  { size: '320x50' },
  { dsp: 'dsp-2' },
  { deal: 'deal-2' },
]

t.test('each bid has its own hashes, whatever the bid before had', async (t) => {
  const learner = createLearner({})
  /** The caller's own object, which it changes from bid to bid. */
  const shared = { ...facts }
  let bid = 0
  for (const change of changes)
    for (const next of [facts, { ...facts, ...change }]) {
      const key = `auction-${bid >> 1}`
      const now = start + bid++ * 3 * hour
      Object.assign(shared, next)
      const fresh = createLearner({})
      const expected = fresh.decide({ ...next }, policy, key, now, () => 0.5)
      const decision = learner.decide(shared, policy, key, now, () => 0.5)
      t.equal(decision.arm, expected.arm, JSON.stringify(change))
      const hashes = (bytes: Uint8Array) => [...bytes.subarray(11, 39)]
      t.strictSame(
        hashes(learner.expose(decision, decision.outBa, now)),
        hashes(fresh.expose(expected, expected.outBa, now)),
        JSON.stringify(change),
      )
    }
})

t.test('the hour and the floor of each bid are its own', async (t) => {
  const trained = createLearner({ attributionWindow: 1000 })
  for (let n = 0; n < 4000; n++) {
    const now = start + n * 20_000
    const bid = { ...facts, floor: n % 3 }
    const decision = trained.decide(bid, policy, `auction-${n}`, now, () => 0.5)
    const features = trained.expose(decision, decision.outBa, now)
    // Won in some hours, and at some floors.
    if (n % 3 !== 1 && Math.floor(now / (4 * hour)) % 2 === 0)
      trained.win(features, decision.outBa, now + 1)
    trained.advance(now + 2000)
  }
  const snapshot = trained.snapshot()
  const restored = () => {
    const learner = createLearner({}, snapshot)
    learner.freeze(true)
    return learner
  }
  const learner = restored()
  const seen = new Set<number>()
  for (const [floor, hours] of [
    [0, 0],
    [1, 0],
    [1, 4],
    [0, 4],
    [0, 8],
    [1.5, 8],
  ] as const) {
    const ask = (model: typeof learner) =>
      model.decide({ ...facts, floor }, policy, 'auction', start + hours * hour, () => 0.5).winIn
    const winIn = ask(learner)
    t.equal(winIn, ask(restored()), `floor ${floor}, ${hours} h`)
    seen.add(winIn)
  }
  t.ok(seen.size > 3, 'they matter')
})

t.test('a second exposure of a decision does not change the bytes of the first', async (t) => {
  const learner = createLearner({})
  const decision = learner.decide(facts, policy, 'auction', start, () => 0.5)
  const first = learner.expose(decision, 2, start)
  const before = [...first]
  const second = learner.expose(decision, 1.5, start + hour)
  t.strictSame([...first], before)
  t.notSame([...second], before)
})
