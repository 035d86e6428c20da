/** Sums of priced bids by arm; an auction is wholly of one arm (CONTRACT 4). */
import t from 'tap'
import type { OpdConfig } from '../../../opd/config.ts'
import { createEngine } from '../../../opd/engine/engine.ts'
import { createLearner } from '../../../opd/learner.ts'
import { type Arm, armAt } from '../../../opd/shared/arms.ts'
import { LocalBidLog } from '../../../opd/state/bid-log.ts'
import { type AskedBid, aloneDeps, auction, testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'

const rows: [Arm, Partial<OpdConfig>, Omit<AskedBid, 'id'>, number, number][] = [
  ['treated', {}, { price: '2' }, 2, 1.8],
  ['treated', {}, { price: '2', cur: 'EUR' }, 2.5, 2.25],
  ['treated', { clientFee: 0.1 }, { price: '2' }, 1.8, 1.62],
  ['holdout', {}, { price: '2' }, 2, 2],
  ['explored', {}, { price: '2' }, 2, 1.8],
  ['shadow', { enabled: 'shadow' }, { price: '2' }, 2, 2],
  ['outside', { share: 0 }, { price: '2' }, 2, 2],
  ['floor', {}, { price: '2', floor: 2 }, 2, 2],
  ['no_rate', {}, { price: '2', cur: 'XXX' }, 0, 0],
  ['test', {}, { price: '2', test: true }, 0, 0],
]
for (const [arm, opd, asked, inSum, outSum] of rows)
  t.test(`${arm} ${JSON.stringify({ ...opd, ...asked })}`, (t) => {
    const { engine, learner } = testEngine({ integrations: [integration('acme', opd)] })
    if (arm === 'holdout' || arm === 'explored') learner.arm = arm
    auction(engine, { id: 'b', ...asked })
    const sums = engine.stats.supplierStats('acme').modes.revenue
    t.same(
      sums.arms.map(({ bids }) => bids),
      sums.arms.map((_each, index) => Number(index === armAt[arm])),
    )
    t.same([sums.inSum, sums.outSum, sums.sums(arm).in], [inSum, outSum, inSum])
    t.end()
  })

t.test('in_ba just at the floor: the price stays as it is, with a fee as well', (t) => {
  for (const [clientFee, floor] of [
    [0, 1],
    [0.1, 0.9],
  ] as const) {
    const { engine } = testEngine({ integrations: [integration('acme', { clientFee })] })
    const { price, in: came, out } = auction(engine, { id: 'b', price: '1.00', floor })
    t.same([price, came, out], [1, clientFee === 0 ? '1.00' : '0.9', '1.00'])
    t.equal(engine.stats.supplierStats('acme').modes.revenue.sums('floor').bids, 1)
  }
  t.end()
})

t.test('an auction is wholly holdout or not, in the share that is asked, on every node', (t) => {
  const { config, now } = testEngine({ integrations: [integration('acme', { holdout: 0.3 })] })
  const nodes = [1, 2].map(() => {
    const learner = createLearner({})
    return createEngine(config, {
      learners: { learnerOf: () => learner, version: () => 1, epoch: () => 0 },
      bidLog: new LocalBidLog({ ttl: 3_600_000, now }),
      ...aloneDeps,
      now,
    })
  })
  let held = 0
  for (let n = 0; n < 1000; n++) {
    const arms = new Set<string>()
    for (const engine of nodes)
      for (const id of ['a', 'b']) {
        const { svcOpd } = auction(engine, { id, auction: `auction ${n}` })
        arms.add(engine.explain(svcOpd, id).record!.arm === 'holdout' ? 'holdout' : 'not')
      }
    if (arms.size > 1) t.fail(`auction ${n} is both`)
    if (arms.has('holdout')) held++
  }
  t.ok(held > 240 && held < 360, `${held} of 1,000`)
  t.end()
})
