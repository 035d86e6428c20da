/** Beyond a number of decisions a second, the model is trained with a uniform sample of them. */
import t from 'tap'
import { mulberry32 } from '../../../opd/base/random.ts'
import { createEngine } from '../../../opd/engine/engine.ts'
import { ExposureSampler } from '../../../opd/pricing/pricing.ts'
import { LocalBidLog } from '../../../opd/state/bid-log.ts'
import { aloneDeps, auction, hour, testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'

const start = 1_800_000_000_000
const most = 4000

t.test('up to the limit all decisions train, beyond it a uniform sample', async (t) => {
  const sampler = new ExposureSampler(mulberry32(1))
  /** How many of a second's decisions train, in its first and second half. */
  function second(n: number, decisions: number): [number, number] {
    const halves: [number, number] = [0, 0]
    for (let n2 = 0; n2 < decisions; n2++) {
      const decidedAt = start + 1000 * n + Math.floor((1000 * n2) / decisions)
      if (sampler.takes(decidedAt)) halves[n2 < decisions / 2 ? 0 : 1]++
    }
    return halves
  }
  t.same(second(0, most), [most / 2, most / 2], 'as many as the bound')
  t.same(second(1, 4 * most), [most, 0], 'a sudden rise is cut')
  const [first, rest] = second(2, 4 * most)
  t.ok(first + rest <= most)
  t.ok(Math.abs(first - most / 2) < 150 && Math.abs(rest - most / 2) < 150, `${first} ${rest}`)
  t.same(second(10, most), [most / 2, most / 2], 'after a pause, all of them again')
})

t.test('a clock that was set back does not stop training', async (t) => {
  const sampler = new ExposureSampler(mulberry32(1))
  const takenAt = (time: number) =>
    Array.from({ length: 2 * most }, () => sampler.takes(time)).filter(Boolean).length
  t.equal(takenAt(start), most)
  const taken = takenAt(start - hour)
  t.ok(taken > 0.9 * most && taken <= most, `${taken}`)
})

t.test('a decision that is left out trains with neither its exposure nor its win', async (t) => {
  const { config, learner, clock, now } = testEngine({ integrations: [integration('acme', {})] })
  const engine = createEngine(config, {
    learners: { learnerOf: () => learner, version: () => 1, epoch: () => 0 },
    bidLog: new LocalBidLog({ ttl: hour, now }),
    ...aloneDeps,
    now,
  })
  const counted = () => engine.stats.supplierStats('acme').modes.revenue
  for (let n = 0; n < most; n++) auction(engine, { id: `bid-${n}` })
  const answer = auction(engine, { id: 'last' })
  t.equal(learner.exposed.length, most)
  t.equal(counted().exposuresLeftOut, 1)
  t.equal(answer.price, 0.9, 'it has its price')
  const { record } = engine.explain(answer.svcOpd, 'last')
  t.match(record, { trains: false, arm: 'treated', outBa: '0.9' })
  engine.learnWin(record!, 0.8, false)
  t.same(learner.updates, [])
  clock.now += 5000
  const next = engine.explain(auction(engine, { id: 'next' }).svcOpd, 'next').record!
  engine.learnWin(next, 0.8, false)
  t.equal(learner.updates.length, 1)
})
