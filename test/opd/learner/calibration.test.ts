/** How far the loss that the model expects is off, as the holdout and lowest winning prices verify it. */
import t from 'tap'
import {
  keptBy,
  keptError,
  type LossError,
  lossError,
  unverified,
} from '../../../opd/learner/control/calibration.ts'
import { Evidence } from '../../../opd/learner/control/kept.ts'
import { source } from '../../support/random.ts'

const winIn = 0.5

/** The model expects to lose 6 % of wins where the truth is (1 + error) times as much. */
function verified(error: number, holdout: number, bids: number, lost = 0, known = false): Evidence {
  const evidence = new Evidence(100)
  const random = source(7)
  for (let n = 0; n < bids; n++) {
    const held = random() < holdout
    const winSent = held ? winIn : winIn * 0.94
    const least = random()
    evidence.exposed(held ? 'heldDeep' : 'deep', { inBa: 1, sent: held ? 1 : 0.9, winIn, winSent })
    const truth = held ? winIn : winIn * (1 - 0.06 * (1 + error))
    if (least < truth && random() >= lost) evidence.won(held ? 'heldDeep' : 'deep', 1, 0.9)
    // The lowest winning price: .9 or less where the bid was won, 1 where it would have been at its own price.
    if (known && !held && least < winIn) evidence.knew('deep', 1, 0.9, least < truth ? 0.9 : 1)
  }
  return evidence
}
const found = (evidence: Evidence) => lossError(evidence, 'wins', { ...unverified })

t.test('the holdout measures it, whatever share of notices is lost', (t) => {
  for (const error of [-0.5, 0, 1])
    for (const lost of [0, 0.3]) {
      const evidence = verified(error, 0.2, 400_000, lost)
      const measured = found(evidence)
      t.ok(measured.deviation < 0.008, `${measured.deviation}`)
      const kept = 1 - 0.06 * (1 + error)
      t.ok(Math.abs(measured.kept - kept) < 3 * measured.deviation, `${measured.kept} for ${kept}`)
      t.ok(Math.abs(keptBy(evidence, 'wins', measured) - measured.kept) < 1e-9)
    }
  t.end()
})

t.test('lowest winning prices measure it with fewer bids', (t) => {
  const [held, known] = [
    found(verified(1, 0.02, 20_000)),
    found(verified(1, 0.02, 20_000, 0, true)),
  ]
  t.ok(known.deviation < 0.5 * held.deviation, `${known.deviation}, ${held.deviation}`)
  t.ok(Math.abs(known.kept - 0.88) < 3 * known.deviation, `${known.kept}`)
  t.end()
})

t.test('before anything is verified it is not known, and nothing counts as lost', (t) => {
  const measured: LossError = found(new Evidence())
  t.same(measured, unverified)
  t.equal(keptBy(new Evidence(), 'wins', measured), 1)
  const [few, many] = [verified(0, 0.02, 5000), verified(0, 0.02, 200_000)]
  t.ok(keptError(few, 'wins', found(few)) > 1.5 * keptError(many, 'wins', found(many)))
  t.end()
})
