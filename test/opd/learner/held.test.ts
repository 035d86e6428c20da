/** A share of the bids that would be lowered keeps its own price: it shows what lower prices lose. */
import t from 'tap'
import { bid, start, trained } from '../../support/learners.ts'

const policy = { minWinRate: 0.9, holdout: 0.2, explore: 0 }

t.test(
  'some auctions keep their price by chance, beside the holdout, and all bids of an auction agree',
  (t) => {
    const [learner] = trained(1, 6000, 100)
    const now = start + 700_000
    learner!.decide(bid(2, 1), policy, 'binds', now, () => 0.9)
    // The multipliers do not change: only the auctions differ.
    learner!.freeze(true)
    const counts = { holdout: 0, held: 0, lowered: 0 }
    for (let n = 0; n < 2000; n++) {
      const decision = learner!.decide(bid(2, 1), policy, `auction ${n}`, now, () => 0.9)
      const again = learner!.decide(bid(2, 1), policy, `auction ${n}`, now, () => 0.9)
      t.equal(again.outBa, decision.outBa)
      if (decision.arm === 'holdout') {
        counts.holdout++
        t.equal(decision.propensity, 0.2)
        continue
      }
      t.equal(decision.arm, 'treated')
      t.equal(
        decision.propensity,
        0.8,
        'of the arm: held bids are a part of how treated bids are priced',
      )
      counts[decision.outBa === 2 ? 'held' : 'lowered']++
      if (decision.outBa === 2) t.equal(decision.winOut, decision.winIn)
    }
    t.ok(counts.holdout > 340 && counts.holdout < 460, `${counts.holdout} held out`)
    const share = counts.held / (counts.held + counts.lowered)
    t.ok(share > 0.13 && share < 0.21, `${share} of the treated bids are held`)
    t.end()
  },
)
