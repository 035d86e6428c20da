/** What the model learns of a market: spikes, floors, the second price, and when it may take silence for a loss. */
import t from 'tap'
import {
  type BidFacts,
  createLearner,
  type Learner,
  type Policy,
  refit,
} from '../../../opd/learner.ts'
import { source } from '../../support/random.ts'

const pure: Policy = { minWinRate: 0, minSpend: 0, holdout: 0, explore: 0.02, minFactor: 0 }
const start = 1_760_000_000_000

interface World {
  bids: number
  /** True chance at a price. */
  wins: (price: number, facts: BidFacts) => number
  facts: (random: () => number) => BidFacts
  delay?: (n: number) => number
  every?: number
  cleared?: (price: number, random: () => number) => number
  learner?: Learner
  from?: number
  window?: number
  /** After each bid: what was sent. */
  look?: (n: number, price: number, facts: BidFacts, learner: Learner) => void
}

/** Bids, notices after their delay, and time that settles the rest. */
function live(world: World): { learner: Learner; now: number } {
  const { every = 100, delay = () => 3000, from = start } = world
  const learner = world.learner ?? createLearner({ attributionWindow: world.window ?? 1_800_000 })
  const random = source(11)
  const due: { dueAt: number; features: Uint8Array; cleared: number }[] = []
  let now = from
  for (let n = 0; n < world.bids; n++, now += every) {
    while (due.length > 0 && due[0]!.dueAt <= now) {
      const { features, cleared } = due.shift()!
      learner.win(features, cleared, now)
    }
    learner.advance(now)
    const job = learner.refitJob(now)
    if (job !== null) learner.applyRefit(refit(job))
    const facts = world.facts(random)
    const decision = learner.decide(facts, pure, `k${n}`, now, random)
    const features = learner.expose(decision, decision.outBa, now)
    if (random() < world.wins(decision.outBa, facts)) {
      const cleared = world.cleared?.(decision.outBa, random) ?? decision.outBa
      due.push({ dueAt: now + delay(n), features, cleared })
    }
    world.look?.(n, decision.outBa, facts, learner)
  }
  return { learner, now }
}

const bid = (inBa: number, floor = 0): BidFacts => ({
  supplier: 'acme',
  mode: 'revenue',
  inBa,
  floor,
  publisher: 'p',
  placement: 's',
})
const chance = (learner: Learner, facts: BidFacts, price: number) => learner.chance(facts, price)

t.test('a price that half of the competition bids is found, and sent', (t) => {
  // 10 % below it, 60 % at it, the rest above.
  const wins = (price: number) => (price < 0.7 ? 0.1 : 0.7) + 0.1 * Math.min(1, price / 2)
  let [margin, best] = [0, 0]
  live({
    bids: 12_000,
    wins,
    facts: (random) => bid(0.9 + random()),
    look(n, price, { inBa }) {
      if (n < 6000) return
      margin += (inBa - price) * wins(price)
      best += (inBa - 0.7) * wins(0.7)
    },
  })
  t.ok(margin / best > 0.9, `${margin / best} of what its knower earns`)
  t.end()
})

t.test('wins at the floor are distinguished from wins between floor and price', (t) => {
  const learned = (atFloor: number) => {
    const { learner } = live({
      bids: 12_000,
      wins: (price) => atFloor + 0.25 * price,
      facts: (random) => bid(1 + 0.3 * random(), 0.2 + 0.1 * Math.floor(3 * random())),
    })
    return chance(learner, bid(1.1, 0.3), 0.3)
  }
  const [much, none] = [learned(0.45), learned(0)]
  t.ok(much > 0.3, `${much} where .525 is won`)
  t.ok(none < 0.15, `${none} where .075 is won`)
  t.end()
})

t.test('if wins clear below the price sent, the bid keeps its price', (t) => {
  let [high, seen] = [0, 0]
  const second = { ...bid(1), auction: 2 as const }
  live({
    bids: 8000,
    wins: (price) => 0.8 * price,
    facts: () => second,
    cleared: (price, random) => price * random(),
    look(n, price) {
      if (n < 5000) return
      seen++
      if (price > 0.9) high++
    },
  })
  t.ok(high / seen > 0.9, `${high} of ${seen} at their price`)
  t.end()
})

t.test('a cold start sees neither mostly wins nor mostly losses', (t) => {
  // An observer who waits for the window, half an hour, would know of wins alone.
  const chances: number[] = []
  const facts = bid(1)
  live({
    bids: 3000,
    wins: (price) => 0.4 * price ** 0.5,
    facts: () => facts,
    delay: (n) => 3000 + ((n * 7919) % 12_000),
    look(n, _price, _facts, learner) {
      if (n % 100 === 0 && n >= 1500) chances.push(chance(learner, facts, 0.9))
    },
  })
  const worst = Math.max(...chances.map((chance) => Math.abs(chance - 0.4 * 0.9 ** 0.5)))
  t.ok(worst < 0.2, `at most ${worst} off`)
  t.end()
})

t.test('notices that take a hundred times as long are no losses', (t) => {
  const facts = bid(1)
  const wins = (price: number) => 0.5 * price
  const usual = live({ bids: 6000, wins, facts: () => facts, delay: () => 3000 })
  const before = chance(usual.learner, facts, 0.6)
  // From here on they take 5 minutes: none comes for 3,000 bids.
  live({
    bids: 2500,
    wins,
    facts: () => facts,
    delay: () => 300_000,
    learner: usual.learner,
    from: usual.now,
  })
  const after = chance(usual.learner, facts, 0.6)
  t.ok(after > before * 0.8, `${before} became ${after}`)
  t.end()
})

t.test('exposures and wins of different nodes train one model', (t) => {
  const [bidder, notified] = [createLearner({}), createLearner({})]
  const random = source(3)
  for (let n = 0; n <= 4000; n++) {
    const time = start + n * 200
    const facts = bid(1 + random())
    const decision = bidder.decide(facts, pure, `k${n}`, time, () => 0.9)
    const features = bidder.expose(decision, 0.8 * facts.inBa, time)
    if (random() < 0.4) notified.win(features, 0.8 * facts.inBa, time + 2000)
    bidder.advance(time)
    notified.advance(time)
    if (n % 10 !== 0) continue
    const [one, other] = [bidder.delta(), notified.delta()]
    bidder.merge(other)
    notified.merge(one)
  }
  const [one, other] = [bidder, notified].map((model) => chance(model, bid(1.4), 1.12))
  t.ok(Math.abs(one! - other!) < 0.02, `${one} and ${other}`)
  t.ok(Math.abs(one! - 0.4) < 0.12, `${one} for .4`)
  t.end()
})
