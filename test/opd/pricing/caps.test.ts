/** `opd.caps`: what OPD takes off one bid, and off the bids that win in one day (CONTRACT 2). */
import t from 'tap'
import type { OpdConfig } from '../../../opd/config.ts'
import { dayOf } from '../../../opd/pricing/day-reductions.ts'
import { type AskedBid, auction, hour, testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'

const priced = (caps: OpdConfig['caps'], opd: Partial<OpdConfig> = {}) =>
  testEngine({ integrations: [integration('acme', { caps, ...opd }), integration('other')] })

t.test('no more than the cap is taken off one bid, in the base currency', async (t) => {
  const rows: [string, number | null, Partial<OpdConfig>, Omit<AskedBid, 'id'>, number][] = [
    ['without a cap the model decides', null, {}, { price: '2' }, 1.8],
    ['the cap decides', 0.05, {}, { price: '2' }, 1.95],
    ['a cap that is never reached', 0.5, {}, { price: '2' }, 1.8],
    ['a rate of .8: .05 in the base currency are .04', 0.05, {}, { price: '2', cur: 'EUR' }, 1.96],
    ['off in_ba, after the fee', 0.05, { clientFee: 0.1 }, { price: '2' }, 1.75],
    ['a floor above it', 0.05, {}, { price: '2', floor: 1.97 }, 1.97],
  ]
  for (const [name, perBid, opd, asked, price] of rows) {
    const { engine } = priced({ perBid, perDay: null }, opd)
    const answer = auction(engine, { id: 'b', ...asked })
    t.equal(answer.price, price, name)
    t.equal(Number(answer.out), price, name)
  }
})

t.test('at the cap of a day bids keep their price, until the next day in UTC', async (t) => {
  // Each bid of 100 CPM is lowered by 10 CPM: a hundredth of a unit of money.
  const { engine, clock, learner } = priced({ perBid: null, perDay: 0.025 })
  let serial = 0
  const bid = (asked: Partial<AskedBid> = {}) => {
    const id = `bid ${serial++}`
    return { id, ...auction(engine, { id, price: '100', ...asked }) }
  }
  const record = ({ id, svcOpd }: ReturnType<typeof bid>) => engine.explain(svcOpd, id).record!
  const win = ({ price }: ReturnType<typeof bid>) =>
    engine.reductions.count({
      ...{ day: dayOf(clock.now), supplier: 'acme', amount: (100 - price) / 1000 },
    })

  const early = Array.from({ length: 20 }, () => bid())
  t.ok(
    early.every(({ price }) => price === 90),
    'bids that do not win take nothing off',
  )
  win(early[0]!)
  win(early[1]!)
  t.equal(bid().price, 90, 'two hundredths')
  win(early[2]!)
  const exposed = learner.exposed.length
  const capped = bid()
  t.match([capped.price, record(capped).arm], [100, 'capped'], 'three hundredths')
  t.equal(learner.exposed.at(-1), 100, 'it still trains the model, at the price that was sent')
  t.equal(learner.exposed.length, exposed + 1)
  t.equal(bid({ supplier: 'other' }).price, 90, 'the cap is one of its integration')
  win(capped)
  t.equal(engine.reductions.amountOf('acme', clock.now).toFixed(6), '0.030000')

  clock.now = Math.ceil(clock.now / (24 * hour)) * 24 * hour - 1
  t.equal(bid().price, 100, 'the last millisecond of the day')
  clock.now++
  t.equal(bid().price, 90, 'the next day')
  win(early[4]!)
  t.equal(
    engine.reductions.amountOf('acme', clock.now).toFixed(6),
    '0.010000',
    'by the time of the win',
  )
})

t.test(
  'a reload keeps what was taken off, and what is put on the cap later counts too',
  async (t) => {
    const { engine, clock } = priced({ perBid: null, perDay: null })
    engine.reductions.count({ day: dayOf(clock.now), supplier: 'acme', amount: 0.01 })
    engine.setIntegration(integration('acme', { caps: { perBid: null, perDay: 0.01 } }))
    t.equal(auction(engine, { id: 'second', price: '100' }).price, 100)
  },
)
