/** The joint fit of settled rows: what it finds, when it is due, and that it is pure. */
import t from 'tap'
import { type BidFacts, createLearner, type Learner, refit } from '../../../opd/learner.ts'
import { apart, bid, off, trained } from '../../support/learners.ts'
import { source } from '../../support/random.ts'

const start = 1_760_000_000_000
const late = 2e12

/** Bids at random prices; notices come at once, with the lowest winning price where `least` has it. */
function traffic(
  bids: number,
  wins: (price: number, placement: number) => boolean,
  least: () => number | undefined,
  placements = 1,
): Learner {
  const learner = createLearner({ attributionWindow: 5000 })
  const random = source(17)
  for (let n = 0; n < bids; n++) {
    const now = start + 100 * n
    const placement = n % placements
    const facts = spot(1 + random(), placement)
    const decision = learner.decide(facts, { minWinRate: 0 }, `k${n}`, now, random)
    const price = facts.inBa * (0.3 + 0.7 * random())
    const features = learner.expose(decision, price, now)
    const won = wins(price, placement)
    if (won) learner.win(features, price, now + 10, least())
    else if (least() !== undefined) learner.lose(features, least()!, now + 10)
    learner.advance(now)
  }
  learner.advance(start + 100 * bids + 60_000)
  return learner
}
const spot = (inBa: number, placement = 0): BidFacts => ({
  supplier: 'acme',
  mode: 'revenue',
  inBa,
  floor: 0,
  publisher: 'p',
  placement: `s${placement}`,
})
const none = () => undefined

t.test('a fit is nearer to the market than what was learned bid by bid', (t) => {
  const [learner] = trained(1, 10_000, 100)
  const before = off(learner!)
  const job = learner!.refitJob(late)!
  learner!.applyRefit(refit(job))
  t.ok(off(learner!) < 0.7 * before, `${off(learner!)}, ${before} before`)
  t.ok(off(learner!) < 0.04, `${off(learner!)}`)
  t.end()
})

t.test('a fit depends on its job alone, and is due only after more rows and more time', (t) => {
  const [learner] = trained(1, 6000, 100)
  t.equal(createLearner({}).refitJob(late), null)
  const job = learner!.refitJob(late)!
  t.same(refit(job), refit(job))
  t.equal(learner!.refitJob(late + 3_600_000), null, 'no new rows')
  t.end()
})

t.test('a result that is damaged changes nothing', (t) => {
  const [learner, same] = [trained(1, 3000, 100)[0]!, trained(1, 3000, 100)[0]!]
  const result = refit(learner.refitJob(late)!)
  t.throws(() => learner.applyRefit(result.subarray(0, result.length - 4)), { name: 'DeltaError' })
  t.throws(() => learner.applyRefit(new Uint8Array(100)), { name: 'DeltaError' })
  t.equal(apart(learner, same), 0)
  t.end()
})

t.test('a price that half of the competition bids is found in the density', (t) => {
  const random = source(5)
  const learner = traffic(6000, (price) => price >= 0.7 && random() < 0.7, none)
  const smooth = learner.chance(spot(1.5), 0.69)
  learner.applyRefit(refit(learner.refitJob(late)!))
  const [below, atPrice] = [0.68, 0.72].map((price) => learner.chance(spot(1.5), price))
  t.ok(atPrice! - below! > 0.4, `${below} below it, ${atPrice} above it, ${smooth} without a fit`)
  t.end()
})

t.test('lowest winning prices train both sides, so fewer rows are needed', (t) => {
  const least = [0.4, 0.7, 1.2]
  const random = source(8)
  let drawn = 0
  const wins = (price: number) => {
    drawn = least[Math.floor(3 * random())]!
    return price >= drawn
  }
  const error = (learner: Learner) => {
    learner.applyRefit(refit(learner.refitJob(late)!))
    const asked = [0.35, 0.5, 0.69, 0.71, 1.0, 1.3]
    return Math.max(
      ...asked.map((price) =>
        Math.abs(
          learner.chance(spot(1.5), price) - least.filter((bound) => bound <= price).length / 3,
        ),
      ),
    )
  }
  const censored = error(traffic(600, wins, none))
  const notified = error(traffic(600, wins, () => drawn))
  t.ok(notified < 0.6 * censored, `${notified}, ${censored} without`)
  t.end()
})

t.test('a dozen bids of a placement show its price', (t) => {
  const leastOf = (placement: number) => 0.5 + 0.01 * placement
  let least = 0
  const wins = (price: number, placement: number) => {
    least = leastOf(placement)
    return price >= least
  }
  const learner = traffic(12 * 60, wins, () => least, 60)
  learner.applyRefit(refit(learner.refitJob(late)!))
  const steps = Array.from({ length: 60 }, (_each, placement) => {
    const [below, above] = [0.97, 1.03].map((by) =>
      learner.chance(spot(1.5, placement), by * leastOf(placement)),
    )
    return above! - below!
  })
  const step = steps.reduce((sum, one) => sum + one, 0) / steps.length
  t.ok(step > 0.3, `${step}`)
  t.end()
})

t.test('a price of the grid just below the lowest winning one does not win', (t) => {
  // 1.375 is the one price of the grid in [1.367, 1.384].
  const learner = traffic(
    1500,
    (price) => price >= 1.38,
    () => 1.38,
  )
  learner.applyRefit(refit(learner.refitJob(late)!))
  const [below, atPrice] = [1.375, 1.4].map((price) => learner.chance(spot(1.6), price))
  t.ok(below! < 0.1 && atPrice! > 0.9, `${below} below it, ${atPrice} above it`)
  t.end()
})

t.test('a loss notice settles its exposure at once', (t) => {
  const [silent, notified] = [createLearner({}), createLearner({})]
  const before = silent.chance(spot(1.5), 1)
  for (const learner of [silent, notified]) {
    for (let n = 0; n < 20; n++) {
      const decision = learner.decide(spot(1.5), { minWinRate: 0 }, `k${n}`, start, () => 0.9)
      const features = learner.expose(decision, 1, start)
      if (learner === notified) learner.lose(features, null, start + 50)
    }
  }
  t.equal(silent.chance(spot(1.5), 1), before)
  t.ok(notified.chance(spot(1.5), 1) < before)
  t.end()
})

t.test('bids of a publisher that was not in the fit keep a curve', (t) => {
  const [learner] = trained(1, 5000, 100)
  learner!.applyRefit(refit(learner!.refitJob(late)!))
  const chance = learner!.chance({ ...bid(2, 1), publisher: 'new', placement: 'new/1' }, 1.5)
  t.ok(chance > 0.3 && chance < 1, `${chance}`)
  t.end()
})
