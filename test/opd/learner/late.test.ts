/** Floors where notices are an hour late: nothing is known of a price for an hour after it was first sent. */
import t from 'tap'
import { type BidFacts, createLearner, type Policy, refit } from '../../../opd/learner.ts'
import { source } from '../../support/random.ts'

const start = 1_760_000_000_000
const hour = 3_600_000
const [bids, every, windowBids] = [40_000, 250, 10_000]
const policy: Policy = { minWinRate: 0.95, minSpend: 0.95, holdout: 0.02 }

t.test('notices an hour late: the floor holds for all bids so far, and nearly for 10,000', (t) => {
  // The market does not depend on how many numbers the decisions draw.
  const [random, draws] = [source(11), source(12)]
  const learner = createLearner({ attributionWindow: 3 * hour })
  const notices: { due: number; features: Uint8Array; price: number }[] = []
  const windows = Array.from({ length: bids / windowBids }, () => ({ kept: 0, unlowered: 0 }))
  let [lowered, nextFit] = [0, start]
  let result: Uint8Array | null = null
  for (let n = 0; n < bids; n++) {
    const now = start + n * every
    while (notices.length > 0 && notices[0]!.due <= now) {
      const { features, price, due } = notices.shift()!
      learner.win(features, price, due)
    }
    if (n % 4 === 0) learner.advance(now)
    if (now >= nextFit) {
      if (result !== null) learner.applyRefit(result)
      const job = learner.refitJob(now)
      result = job === null ? null : refit(job)
      nextFit = now + 60_000
    }
    const publisher = Math.floor(20 * random())
    const inBa = Math.exp(0.4 * (random() + random() + random() - 1.5))
    const facts: BidFacts = {
      ...{ supplier: 'acme', mode: 'revenue', inBa, floor: 0 },
      ...{ publisher: `p${publisher}`, placement: `s${publisher}` },
    }
    const wins = (price: number) =>
      0.7 / (1 + Math.exp(-5 * (Math.log(price) + 0.25 - 0.05 * (publisher % 7))))
    const decision = learner.decide(facts, policy, `k${n}`, now, draws)
    const features = learner.expose(decision, decision.outBa, now)
    if (random() < wins(decision.outBa))
      notices.push({ due: now + hour, features, price: decision.outBa })
    if (decision.arm === 'holdout') continue
    const window = windows[Math.floor(n / windowBids)]!
    window.kept += wins(decision.outBa)
    window.unlowered += wins(inBa)
    if (n >= bids - windowBids && decision.factor < 0.999) lowered++
  }
  const sums = { kept: 0, unlowered: 0 }
  for (const { kept, unlowered } of windows) {
    sums.kept += kept
    sums.unlowered += unlowered
    t.ok(sums.kept / sums.unlowered > 0.95, `${sums.kept / sums.unlowered} so far`)
    // What was not lost before the first notices may be lost later: at most 1.4 times what the floor permits.
    t.ok(kept / unlowered > 0.93, `${kept / unlowered} of 10,000 bids`)
  }
  t.ok(lowered > windowBids / 50, `${lowered} bids of the last window are lowered`)
  t.end()
})
