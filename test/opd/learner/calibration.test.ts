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

t.test('theta raised and lowered by chance measure it without a holdout', (t) => {
  for (const error of [-0.6, 0, 1]) {
    const evidence = new Evidence(100)
    const random = source(3)
    for (let n = 0; n < 200_000; n++) {
      const raised = random() < 0.5
      // Raised: a third of the bids keep their price, the rest loses 2 %; lowered: all lose 6 %.
      const isFlat = raised && random() < 1 / 3
      const loss = isFlat ? 0 : raised ? 0.02 : 0.06
      const group = isFlat ? 'raisedFlat' : raised ? 'raisedDeep' : 'deep'
      const seen = { inBa: 2, sent: isFlat ? 2 : 1.8, winIn, winSent: winIn * (1 - loss) }
      evidence.exposed(group, seen)
      if (random() < winIn * (1 - loss * (1 + error))) evidence.won(group, 2, seen.sent)
    }
    for (const kind of ['wins', 'spend'] as const) {
      const measured = lossError(evidence, kind, { ...unverified })
      const expected = 1 - evidence.total('deep', 'due') / evidence.total('deep', 'dueIn')
      const off = (measured.at - error) * expected
      t.ok(Math.abs(off) < 3 * measured.deviation, `${kind}: ${measured.at} for ${error}`)
      t.ok(measured.deviation < 0.5 * 0.5 * expected, 'twice as sure as before')
    }
  }
  t.end()
})

t.test('one supplier of its own is found, the more bids it has the more', (t) => {
  const pool = { at: 0, kept: 0.94, deviation: 0.005 }
  const few = lossError(verified(2, 0.2, 4000), 'wins', { ...unverified }, pool)
  const many = lossError(verified(2, 0.2, 400_000), 'wins', { ...unverified }, pool)
  t.ok(few.at < many.at && Math.abs(many.at - 2) < 0.5, `${few.at}, ${many.at}`)
  t.same(lossError(new Evidence(), 'wins', { ...unverified }, pool), pool)
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
