/** How far the loss that the model expects is off, as notices verify it. */
import t from 'tap'
import { type Losses, measureLosses, unverified } from '../../../opd/learner/control/calibration.ts'
import { Evidence } from '../../../opd/learner/control/evidence.ts'
import { source } from '../../support/random.ts'

const winIn = 0.5

interface Market {
  bids: number
  /** True over expected loss: of bids with theta raised, expected to lose 2 %, and of the 4 % that others lose more. */
  raised?: number
  further?: number
  holdout?: number
  raisedShare?: number
  /** Share of notices lost. */
  lost?: number
  /** Notices say the lowest winning price. */
  says?: boolean
  weight?: (n: number) => number
}

function verified({
  bids,
  raised = 1,
  further = 1,
  holdout = 0.02,
  raisedShare = 0.2,
  lost = 0,
  says = false,
  weight = () => 1,
}: Market): Evidence {
  const evidence = new Evidence(1000)
  const random = source(7)
  for (let n = 0; n < bids; n++) {
    const u = random()
    const group = u < holdout ? 'held' : random() < raisedShare ? 'raised' : 'usual'
    const [expected, truth] =
      group === 'held'
        ? [0, 0]
        : group === 'raised'
          ? [0.02, 0.02 * raised]
          : [0.06, 0.02 * raised + 0.04 * further]
    const sent = group === 'held' ? 1 : 0.9
    const by = weight(n)
    const least = random()
    const seen = { inBa: 2, sent, winIn, winOut: winIn * (1 - expected), weight: by }
    evidence.exposed(group, seen)
    const wins = least < winIn * (1 - truth)
    if (wins && random() >= lost) evidence.won(group, 2, sent, by)
    if (says && group !== 'held' && least < winIn)
      evidence.addLeast(group, 2, sent, wins ? sent : 2)
  }
  return evidence
}

function found(evidence: Evidence, kind: 'wins' | 'spend' = 'wins', all: Losses | null = null) {
  const losses = unverified()
  measureLosses(evidence, kind, losses, all)
  return losses
}

t.test('auctions with theta raised by chance measure what the others lose more', (t) => {
  for (const further of [0.4, 1, 3])
    for (const lost of [0, 0.3])
      for (const kind of ['wins', 'spend'] as const) {
        const losses = found(verified({ bids: 400_000, further, lost }), kind)
        const off = losses.further.at - further
        t.ok(Math.abs(off) < 3 * losses.further.deviation, `${losses.further.at} for ${further}`)
        t.ok(losses.further.deviation < 0.2, 'three times as sure as before')
        const expected = (0.02 + 0.04 * further) / 0.06
        t.ok(Math.abs(losses.usual - expected) < 0.3, `${losses.usual} for ${expected}`)
      }
  t.end()
})

t.test('the holdout measures what those with theta raised lose', (t) => {
  for (const raised of [0.3, 1, 2.5]) {
    const losses = found(verified({ bids: 600_000, raised, holdout: 0.4, raisedShare: 0.5 }))
    t.ok(losses.raised.deviation < 0.2, `${losses.raised.deviation}`)
    const off = losses.raised.at - raised
    t.ok(Math.abs(off) < 3 * losses.raised.deviation, `${losses.raised.at} for ${raised}`)
    const kept = 1 - 0.02 * raised - 0.04 * 0.5
    t.ok(Math.abs(losses.kept - kept) < 3 * losses.deviation, `${losses.kept} for ${kept}`)
  }
  t.end()
})

t.test('bids count by their weight', (t) => {
  // Every second bid says nothing: it has no weight, and half of the bids are left.
  const [half, all] = [
    found(verified({ bids: 200_000, weight: (n) => n % 2 })),
    found(verified({ bids: 200_000 })),
  ]
  const ratio = half.further.deviation / all.further.deviation
  t.ok(ratio > 1.3 && ratio < 1.5, `${ratio}`)
  t.end()
})

t.test('one supplier of its own is found, the more bids it has the more', (t) => {
  const pool = found(verified({ bids: 400_000 }))
  const few = found(verified({ bids: 2000, further: 3 }), 'wins', pool)
  const many = found(verified({ bids: 400_000, further: 3 }), 'wins', pool)
  t.ok(few.further.at < many.further.at && Math.abs(many.further.at - 3) < 0.6)
  const none = found(new Evidence(), 'wins', pool)
  t.equal(none.further.at, pool.further.at)
  t.equal(none.raised.at, pool.raised.at)
  t.end()
})

t.test('lowest winning prices measure it with fewer bids', (t) => {
  const market = { bids: 20_000, raised: 2, further: 2 }
  const [held, known] = [found(verified(market)), found(verified({ ...market, says: true }))]
  t.ok(known.deviation < 0.5 * held.deviation, `${known.deviation}, ${held.deviation}`)
  const kept = 1 - 0.02 * 2 - 0.04 * 2 * 0.8
  t.ok(Math.abs(known.kept - kept) < 3 * known.deviation, `${known.kept} for ${kept}`)
  t.end()
})

t.test('before anything is verified it is not known, and nothing counts as lost', (t) => {
  t.same(found(new Evidence()), unverified())
  t.equal(found(new Evidence()).kept, 1)
  const [few, many] = [verified({ bids: 5000 }), verified({ bids: 200_000 })]
  t.ok(found(few).deviation > 1.2 * found(many).deviation)
  t.end()
})
