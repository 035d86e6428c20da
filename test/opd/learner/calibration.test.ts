/** The true loss by lower prices over the loss that the model expects, as notices show it. */
import t from 'tap'
import { type Multiple, measureLoss, unmeasured } from '../../../opd/learner/control/calibration.ts'
import { Evidence } from '../../../opd/learner/control/evidence.ts'
import { source } from '../../support/random.ts'

const winIn = 0.5
const expected = 0.08

interface Market {
  bids: number
  /** True over expected loss. */
  multiple?: number
  held?: number
  /** Share of notices lost. */
  lost?: number
  /** Notices say the lowest winning price. */
  says?: boolean
  seed?: number
}

function verified({
  bids,
  multiple = 1,
  held = 0.1,
  lost = 0,
  says = false,
  seed = 7,
}: Market): Evidence {
  const evidence = new Evidence(1000)
  const random = source(seed)
  for (let n = 0; n < bids; n++) {
    const group = random() < held ? 'held' : 'lowered'
    const isHeld = group === 'held'
    const sent = isHeld ? 1.8 : 1.6
    const winOut = isHeld ? winIn : winIn * (1 - expected)
    const least = random()
    evidence.exposed(group, { inBa: 2, sent, winIn, winOut, weight: expected })
    const wins = least < winIn * (isHeld ? 1 : 1 - expected * multiple)
    if (wins && random() >= lost) evidence.addWin(group, 2, sent, expected)
    if (says && !isHeld && least < winIn) evidence.addLeast(group, 2, sent, wins ? sent : 2)
  }
  return evidence
}

function found(evidence: Evidence, kind: 'wins' | 'spend' = 'wins', all: Multiple | null = null) {
  const multiple = unmeasured()
  measureLoss(evidence, kind, multiple, all)
  return multiple
}

t.test('bids that keep their price by chance show what lower prices lose', (t) => {
  for (const multiple of [0.6, 1, 3])
    for (const lost of [0, 0.3])
      for (const kind of ['wins', 'spend'] as const) {
        const { mean, deviation } = found(verified({ bids: 600_000, multiple, lost }), kind)
        t.ok(Math.abs(mean - multiple) < 3 * deviation, `${mean} for ${multiple}`)
        t.ok(deviation < 0.12, `${deviation}`)
      }
  t.end()
})

t.test('the multiple is right on average with few held bids too', (t) => {
  const draws = 4000
  let sum = 0
  for (let seed = 1; seed <= draws; seed++)
    sum += found(verified({ bids: 600, multiple: unmeasured().mean, seed })).mean
  t.ok(Math.abs(sum / draws - unmeasured().mean) < 0.008, `${sum / draws}`)
  t.end()
})

t.test('bids whose own price is the best show nothing about lower prices', (t) => {
  const evidence = verified({ bids: 20_000, multiple: 2 })
  const before = found(evidence)
  for (let n = 0; n < 20_000; n++) {
    evidence.exposed('own', { inBa: 2, sent: 2, winIn, winOut: winIn, weight: 0 })
    if (n % 5 === 0) evidence.addWin('own', 2, 2, 0)
  }
  t.same(found(evidence), before)
  t.end()
})

t.test('the multiple of a supplier begins at that of all, and leaves it with its own bids', (t) => {
  const pool = found(verified({ bids: 400_000 }))
  const few = found(verified({ bids: 2000, multiple: 3 }), 'wins', pool)
  const many = found(verified({ bids: 600_000, multiple: 3 }), 'wins', pool)
  t.ok(few.mean < many.mean && Math.abs(many.mean - 3) < 0.6, `${few.mean}, ${many.mean}`)
  const none = found(new Evidence(), 'wins', pool)
  t.equal(none.mean, pool.mean)
  t.ok(none.deviation > pool.deviation)
  t.end()
})

t.test('lowest winning prices measure the multiple of a supplier with fewer bids', (t) => {
  const market = { bids: 20_000, multiple: 2 }
  const [held, known] = [found(verified(market)), found(verified({ ...market, says: true }))]
  t.ok(known.deviation < 0.5 * held.deviation, `${known.deviation}, ${held.deviation}`)
  t.ok(Math.abs(known.mean - 2) < 4 * known.deviation, `${known.mean}`)
  t.end()
})

t.test('without bids the multiple of a supplier is that of the prior', (t) => {
  t.same(found(new Evidence()), unmeasured())
  const [few, many] = [verified({ bids: 5000 }), verified({ bids: 200_000 })]
  t.ok(found(few).deviation > 1.2 * found(many).deviation)
  t.end()
})
