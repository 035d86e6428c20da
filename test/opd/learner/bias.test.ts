/** What the model is wrong by, as the holdout measures it. */
import t from 'tap'
import {
  type Beta,
  experience,
  keptBy,
  ownBeta,
  pooledBeta,
} from '../../../opd/learner/control/calibration.ts'
import { depthOf, Evidence } from '../../../opd/learner/control/kept.ts'
import { source } from '../../support/random.ts'

/** A model that is wrong by `beta` between prices: W says .5 f^.3 at all prices, the truth is (1 - beta depth) of it. */
function biased(beta: number, holdout: number, bids: number, seed: number, lost = 0): Evidence {
  const evidence = new Evidence(100)
  const random = source(seed)
  for (let n = 0; n < bids; n++) {
    const f = 0.7 + 0.3 * random()
    const held = random() < holdout
    const winOut = 0.5 * f ** 0.3
    const truth = held ? 0.5 : winOut * (1 - beta * depthOf(1, f))
    const group = held ? 'heldDeep' : 'deep'
    evidence.exposed(group, {
      inBa: 1,
      sent: held ? 1 : f,
      winIn: 0.5,
      winSent: held ? 0.5 : winOut,
    })
    if (random() < truth * (1 - lost)) evidence.won(group, 1, held ? 1 : f, held ? 1 : f)
  }
  return evidence
}

t.test(
  'what the model is wrong by is measured by the holdout, whatever share of notices is lost',
  (t) => {
    for (const beta of [0, 0.5, 1.2])
      for (const lost of [0, 0.3]) {
        const evidence = biased(beta, 0.1, 400_000, 7, lost)
        const into: Beta = { ...experience }
        const found = pooledBeta(evidence, 'wins', into)
        t.ok(
          Math.abs(found.at - beta) < 3 * found.error,
          `${found.at} ± ${found.error} for ${beta}`,
        )
        t.ok(found.error < 0.15)
        const kept = keptBy(evidence, 'wins', found)
        let truth = 0
        let own = 0
        const random = source(7)
        for (let n = 0; n < 20_000; n++) {
          const f = 0.7 + 0.3 * random()
          truth += f ** 0.3 * (1 - beta * depthOf(1, f))
          own++
        }
        t.ok(Math.abs(kept - truth / own) < 0.02, `${kept} for ${truth / own}`)
      }
    t.end()
  },
)

t.test('a model whose level moves by the hour is no difference between prices', (t) => {
  const evidence = new Evidence()
  const random = source(11)
  for (let n = 0; n < 300_000; n++) {
    // Off by a tenth for most of the time, right at the end: the holdout remembers both, the treated the end alone.
    const level = n < 270_000 ? 0.9 : 1
    const f = 0.7 + 0.3 * random()
    const held = random() < 0.05
    const winOut = 0.5 * f ** 0.3
    const seen = { inBa: 1, sent: held ? 1 : f, winIn: 0.5, winSent: held ? 0.5 : winOut }
    const group = held ? 'heldDeep' : 'deep'
    evidence.exposed(group, seen)
    if (random() < level * (held ? 0.5 : winOut * (1 - 0.5 * depthOf(1, f))))
      evidence.won(group, 1, seen.sent, seen.sent)
  }
  const { at } = pooledBeta(evidence, 'wins', { ...experience })
  t.ok(Math.abs(at - 0.5) < 0.15, `${at} for .5`)
  t.end()
})

t.test('before anything is measured experience speaks, for one supplier all do', (t) => {
  const into: Beta = { at: 0, error: 0 }
  t.same(pooledBeta(new Evidence(), 'spend', into).at, experience.at)
  const all: Beta = { at: 0.9, error: 0.01 }
  const own = ownBeta(new Evidence(), 'wins', all, into)
  t.ok(Math.abs(own.at - 0.9) < 1e-9 && own.error > 0.1)
  t.equal(keptBy(new Evidence(), 'wins', all), 1)
  t.end()
})
