/** A restored learner is the one that was saved: the same decisions, to the last bit. */
import t from 'tap'
import { type BidFacts, createLearner, type Policy, refit } from '../../../opd/learner.ts'
import { source } from '../../support/random.ts'

const start = 1_760_000_000_000
const policy: Policy = { minWinRate: 0.85, holdout: 0.05, explore: 0.01, minFactor: 0.3 }

t.test(
  'a restored learner decides as the original does, with wins, settled bids and refits',
  (t) => {
    const learner = createLearner({})
    const random = source(6)
    const facts = (): BidFacts => ({
      supplier: `s${Math.floor(3 * random())}`,
      mode: 'revenue',
      inBa: 0.5 + 2 * random(),
      floor: 0.1,
      publisher: `p${Math.floor(9 * random())}`,
      placement: `t${Math.floor(20 * random())}`,
    })
    const due: [number, Uint8Array, number][] = []
    let now = start
    for (let n = 0; n < 8000; n++, now += 100) {
      const decision = learner.decide(facts(), policy, `a${n}`, now, random)
      const features = learner.expose(decision, decision.outBa, now)
      if (random() < 0.8 * decision.factor ** 2) due.push([now + 3000, features, decision.outBa])
      while (due.length > 0 && due[0]![0] <= now) {
        const [, bytes, cleared] = due.shift()!
        learner.win(bytes, cleared, now)
      }
      if (n % 5 === 0) learner.advance(now)
      const job = n % 500 === 0 ? learner.refitJob(now) : null
      if (job !== null) learner.applyRefit(refit(job))
    }
    const again = createLearner({}, learner.snapshot())
    const both = [learner, again]
    const next = both.map(() => source(31))
    // Outcomes are those of one market: the draw decides at which price it is won.
    const dueOf = [due.map((row) => [...row] as (typeof due)[number]), due]
    let [same, lowered, refits] = [0, 0, 0]
    for (let n = 0; n < 3000; n++, now += 100) {
      const bid = facts()
      const draw = random()
      const [one, other] = both.map((model, which) => {
        const waiting = dueOf[which]!
        while (waiting.length > 0 && waiting[0]![0] <= now) {
          const [, bytes, cleared] = waiting.shift()!
          model.win(bytes, cleared, now)
        }
        if (n % 5 === 0) model.advance(now)
        const job = n % 500 === 0 ? model.refitJob(now) : null
        if (job !== null) {
          model.applyRefit(refit(job))
          refits++
        }
        const decision = model.decide(bid, policy, `b${n}`, now, next[which]!)
        const { outBa, arm, propensity, winIn, winOut, theta, lambda, guard } = decision
        const features = model.expose(decision, outBa, now)
        if (draw < 0.8 * decision.factor ** 2) waiting.push([now + 3000, features, outBa])
        return { outBa, arm, propensity, winIn, winOut, theta, lambda, guard }
      })
      if (one!.outBa < bid.inBa) lowered++
      if (JSON.stringify(one) === JSON.stringify(other)) same++
    }
    t.equal(same, 3000)
    t.ok(lowered > 300, `${lowered} of 3000 lowered`)
    t.ok(refits >= 2, `${refits} refits`)
    t.end()
  },
)
