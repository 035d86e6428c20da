/** Goal 10: what a decision, a win and a settled exposure cost, and what the model and its pending exposures hold. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createLearner } from '../../opd/learner.ts'
import { synthetic } from './markets/synthetic.ts'
import { engine, pure } from './measure.ts'

export interface Speed {
  decideMedian: number
  decideP99: number
  expose: number
  /** A win and, beside it, its share of settled losses: one exposure a bid, a win in three. */
  winAndSettle: number
  modelMiB: number
  /** Of 4 million exposures of 2,000 a second, none of which has won. */
  pendingMB: number
  advanceMost: number
  deltaMost: number
  /** Its longest slice. */
  snapshot: number
}

const warm = 60_000
const bids = 120_000

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function heap(): number {
  collect()
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return arrayBuffers + heapUsed
}

const quantile = (sorted: Float64Array, share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!

function timed(run: () => void): number {
  const from = performance.now()
  run()
  return performance.now() - from
}

export function speed(): Speed {
  const before = heap()
  const learner = engine()
  const modelMiB = (heap() - before) / 2 ** 20
  const market = synthetic(1)
  const random = Math.random
  const decide = new Float64Array(bids)
  let [exposing, teaching, taught, advanceMost, deltaMost] = [0, 0, 0, 0, 0]
  let now = 1_760_000_000_000
  for (let n = 0; n < warm + bids; n++, now += 5) {
    const offer = market.offer(n, now)
    const a = performance.now()
    const decision = learner.decide(offer.facts, pure, `key-${n}`, now, random)
    const b = performance.now()
    const features = learner.expose(decision, decision.outBa, now)
    const sent = performance.now()
    // What the market takes to say who won is not the learner's.
    const won = random() < offer.wins(decision.outBa)
    const c = performance.now()
    if (won) learner.win(features, decision.outBa, now + 1)
    const d = performance.now()
    if (n % 50 === 0)
      advanceMost = Math.max(
        n < warm ? 0 : advanceMost,
        timed(() => learner.advance(now)),
      )
    const e = performance.now()
    if (n % 1000 === 0)
      deltaMost = Math.max(
        n < warm ? 0 : deltaMost,
        timed(() => learner.delta()),
      )
    if (n < warm) continue
    decide[n - warm] = (b - a) * 1000
    exposing += sent - b
    teaching += d - c + (n % 50 === 0 ? e - d : 0)
    taught++
  }
  decide.sort()
  let snapshot = 0
  for (const slices = learner.snapshotting!(); ; ) {
    let done: boolean | undefined
    snapshot = Math.max(
      snapshot,
      timed(() => {
        done = slices.next().done
      }),
    )
    if (done) break
  }
  return {
    decideMedian: quantile(decide, 0.5),
    decideP99: quantile(decide, 0.99),
    expose: (exposing / taught) * 1000,
    winAndSettle: (teaching / taught) * 1000,
    modelMiB,
    pendingMB: pending(),
    advanceMost,
    deltaMost,
    snapshot,
  }
}

function pending(): number {
  const learner = createLearner({ attributionWindow: 1_800_000 })
  const market = synthetic(2)
  const facts = { ...market.offer(0, 0).facts }
  const decision = learner.decide(facts, pure, 'key', 0, () => 0.5)
  let now = 1_760_000_000_000
  // Notices that take 25 minutes: so long does every exposure wait.
  for (let n = 0; n < 400; n++) {
    const features = learner.expose(decision, decision.outBa, now)
    now += 1_500_000
    learner.win(features, decision.outBa, now)
  }
  const before = heap()
  for (let n = 0; n < 4_000_000; n++, now += 0.5) learner.expose(decision, decision.outBa, now)
  const holds = (heap() - before) / 1e6
  // Still used here, so not collected.
  learner.advance(now)
  return holds
}
