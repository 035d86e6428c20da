/** Exposures that wait: bounded, found again by their ticket, trained once, carried over a restart. */
import t from 'tap'
import { featureBytes } from '../../../opd/learner/features.ts'
import { PendingExposures } from '../../../opd/learner/train/pending-exposures.ts'
import { type BidFacts, createLearner } from '../../../opd/learner.ts'

const bytesOf = (n: number) => {
  const bytes = new Uint8Array(featureBytes)
  new DataView(bytes.buffer).setUint32(20, n)
  return bytes
}
const ticketOf = (bytes: Uint8Array) => new DataView(bytes.buffer).getUint32(1)
const once = () => 0

t.test('an exposure is either taken or settled', (t) => {
  const pending = new PendingExposures(60_000)
  const all = Array.from({ length: 50 }, (_each, n) => bytesOf(n))
  for (const [n, bytes] of all.entries()) pending.addExposure(bytes, 1000, () => 2000 + n * 100)
  t.equal(pending.size, 50)
  t.equal(pending.takeExposure(ticketOf(all[7]!), all[7]!), 1)
  t.equal(pending.takeExposure(ticketOf(all[7]!), all[7]!), 0, 'once')
  t.equal(pending.takeExposure(ticketOf(all[8]!), all[9]!), 0, 'the ticket of another node')
  const settled: number[] = []
  const settle = (bytes: Uint8Array) => {
    settled.push(new DataView(bytes.buffer, bytes.byteOffset).getUint32(20))
    return 0
  }
  pending.advance(4000, 1000, settle)
  t.ok(settled.length > 5 && settled.length < 30, `${settled.length} due`)
  t.equal(pending.takeExposure(ticketOf(all[0]!), all[0]!), 0)
  pending.advance(100_000, 1000, settle)
  t.equal(settled.length, 49)
  t.notOk(settled.includes(7))
  t.equal(pending.size, 0)
  t.end()
})

t.test('their memory does not count for the garbage collector', (t) => {
  const pending = new PendingExposures(60_000)
  const bytes = bytesOf(1)
  const before = process.memoryUsage()
  for (let n = 0; n < 200_000; n++) pending.addExposure(bytes, 1000, () => 2000)
  const { arrayBuffers, external } = process.memoryUsage()
  const taken = arrayBuffers - before.arrayBuffers
  t.ok(taken > 200_000 * featureBytes, `${taken} bytes taken`)
  t.ok(external - before.external < taken / 2, `${external - before.external} of them count`)
  t.end()
})

t.test('exposures are settled in slices, and one may be examined again', (t) => {
  const pending = new PendingExposures(60_000)
  for (let n = 0; n < 300; n++) pending.addExposure(bytesOf(n), 1000, () => 2000)
  let [calls, again] = [0, 0]
  const settle = () => {
    calls++
    return again++ < 10 ? 50_000 : 0
  }
  t.equal(pending.advance(9000, 100, settle), false)
  t.equal(calls, 100)
  t.equal(pending.advance(9000, 1000, settle), true)
  t.equal(calls, 300)
  t.equal(pending.size, 10)
  pending.advance(80_000, 1000, settle)
  t.equal(pending.size, 0)
  t.end()
})

t.test(
  'slots are bounded: when they fill, one exposure counts for several, and the sum stays',
  (t) => {
    const pending = new PendingExposures(60_000, 2 ** 14)
    const sent = 60_000
    let left = 0
    for (let n = 0; n < sent; n++)
      if (pending.addExposure(bytesOf(n), 1000, () => 30_000) === 0) left++
    t.ok(pending.size <= 2 ** 14, `${pending.size} exposures`)
    t.equal(pending.size + left, sent)
    let counted = 0
    pending.advance(100_000, 1e9, (_bytes, weight) => {
      counted += weight
      return 0
    })
    t.ok(counted > sent * 0.45 && counted < sent * 1.1, `${counted} counted of ${sent}`)
    t.end()
  },
)

t.test('the length of a slice is by weight of exposures, not by number', (t) => {
  const pending = new PendingExposures(60_000, 2 ** 14)
  for (let n = 0; n < 60_000; n++) pending.addExposure(bytesOf(n), 1000, () => 30_000)
  let trained = 0
  const settle = (_bytes: Uint8Array, weight: number) => {
    trained += weight
    return 0
  }
  t.equal(pending.advance(100_000, 500, settle), false)
  t.ok(trained >= 500 && trained < 508, `${trained} trained`)
  t.end()
})

t.test('a clock that jumps leaves the number of exposures bounded', (t) => {
  const pending = new PendingExposures(60_000)
  let settled = 0
  const settle = () => {
    settled++
    return 0
  }
  for (const now of [5000, 9e15, 1, 9e14, 70_000]) {
    pending.addExposure(bytesOf(now), now, () => now + 1000)
    pending.advance(now, 100, settle)
  }
  t.ok(pending.size <= 5)
  for (let n = 0; n < 5; n++) pending.advance(9e15 + n * 60_000, 100, once)
  t.equal(pending.size + settled <= 5, true)
  t.end()
})

const facts: BidFacts = { supplier: 'acme', mode: 'revenue', inBa: 1, floor: 0.2, publisher: 'p' }

t.test(
  'pending exposures of a snapshot train after a restart, or are dropped if the options say so',
  (t) => {
    const learner = createLearner({ attributionWindow: 60_000 })
    const now = 1_760_000_000_000
    const exposures: Uint8Array[] = []
    for (let n = 0; n < 400; n++) {
      const decision = learner.decide(facts, { minWinRate: 0, explore: 0 }, `k${n}`, now, () => 0.9)
      exposures.push(learner.expose(decision, 0.9, now))
    }
    const snapshot = learner.snapshot()
    const chanceLater = (model: typeof learner) => {
      for (let n = 0; n < 3; n++) model.advance(now + 200_000 + n)
      return model.chance(facts, 0.9)
    }
    const cold = learner.chance(facts, 0.9)
    const restored = createLearner({ attributionWindow: 60_000 }, snapshot)
    restored.win(exposures[0]!, 0.9, now + 1000)
    const after = chanceLater(restored)
    t.ok(after < cold * 0.6, `400 exposures, one win: ${cold} became ${after}`)
    t.ok(Math.abs(after - chanceLater(learner)) < 0.03)
    const bare = createLearner({ attributionWindow: 60_000, carries: false }, snapshot)
    t.ok(Math.abs(chanceLater(bare) - cold) < 1e-6)
    t.end()
  },
)

t.test('wins of exposures that a crash lost do not train, wins of settled ones do', (t) => {
  const learner = createLearner({})
  const now = 1e12
  const sent = (n: number) => {
    const decision = learner.decide(
      facts,
      { minWinRate: 0, explore: 0 },
      `k${n}`,
      now + n,
      () => 0.9,
    )
    return learner.expose(decision, 0.9, now + n)
  }
  const old = Array.from({ length: 400 }, (_each, n) => sent(n))
  learner.win(old[0]!, 0.9, now + 30_000)
  for (let n = 1; n < 20; n++) learner.advance(now + n * 200_000)
  const young = Array.from({ length: 400 }, (_each, n) => sent(4_000_000 + n))
  learner.advance(now + 4_000_500)
  const snapshot = learner.snapshot()
  const lost = Array.from({ length: 400 }, (_each, n) => sent(4_001_000 + n))
  const again = createLearner({ carries: false }, snapshot)
  const before = again.chance(facts, 0.9)
  const back = now + 4_010_000
  again.advance(back)
  for (const features of lost) again.win(features, 0.9, back)
  t.equal(again.chance(facts, 0.9), before, '400 wins without bids')
  // A few of these were settled within the half second.
  for (const features of young) again.win(features, 0.9, back)
  const after = again.chance(facts, 0.9)
  t.ok(after < 0.3, `400 wins, most without bids: ${after}`)
  for (const features of old.slice(1, 200)) again.win(features, 0.9, back)
  t.ok(again.chance(facts, 0.9) > after + 0.05, 'their exposures are in the snapshot')
  t.end()
})

t.test('exposures that are due are settled at once, in any bucket', (t) => {
  const pending = new PendingExposures(1_800_000)
  const now = 1e12
  for (let n = 0; n < 100; n++)
    pending.addExposure(new Uint8Array(featureBytes), now, () => now + 5000 + 10 * n)
  let done = 0
  for (let n = 0; n < 100; n++) {
    pending.advance(now + 5000 + 10 * n + 60, 1000, () => {
      done++
      return 0
    })
    if (done < n + 1) t.fail(`${done} of ${n + 1}`)
  }
  t.equal(done, 100)
  t.end()
})
