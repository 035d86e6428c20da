/**
 * Which event trains the model and which is money, by the supplier's `notices`; each counts once (CONTRACT 6).
 * A cleared price far above the price sent is refused: no money, no training, and the right notice may still come.
 */
import t from 'tap'
import { clearingSchema, type Integration } from '../../../opd/config.ts'
import { auction } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'

type Event = 'win' | 'billing'
const rules: Readonly<Record<Integration['notices'], { trains: Event; money: Event }>> = {
  win: { trains: 'win', money: 'win' },
  billing: { trains: 'billing', money: 'billing' },
  both: { trains: 'win', money: 'billing' },
}
const orders: readonly (readonly Event[])[] = [
  ['win'],
  ['billing'],
  ['win', 'billing'],
  ['billing', 'win'],
]
for (const [notices, { trains, money }] of Object.entries(rules))
  for (const order of orders)
    t.test(`notices ${notices}: ${order.join(', then ')}`, async (t) => {
      const { engine, notify, ledger, learner, tally } = await impressionsApi(t, {
        integrations: [integration('acme', {}, notices as Integration['notices'])],
      })
      const { svcOpd } = auction(engine, { id: 'b1' })
      for (const event of order) {
        // a win is what is meant where nothing is said
        const said = event === 'win' ? undefined : event
        const notice = { bid_id: 'b1', price: '0.8', svc_opd: svcOpd, event: said }
        t.match((await notify(notice)).body, { status: 'attributed', by: 'context' }, event)
        t.match((await notify(notice)).body, { status: 'duplicate' })
      }
      t.same(
        ledger.rows.map(({ event, margin }) => [event, margin]),
        order.map((event) => [event, event === money ? '0.2' : null]),
      )
      t.equal(learner.updates.length, order.includes(trains) ? 1 : 0)
      t.same(tally(), { attributed: order.length, duplicate: order.length })
    })

t.test('above maxOver times out_ba a notice is 422; a plausible one counts', async (t) => {
  const { engine, notify, ledger, learner, counters, tally } = await impressionsApi(t)
  const { svcOpd } = auction(engine, { id: 'b1' })
  const notice = (price: string) => notify({ bid_id: 'b1', price, svc_opd: svcOpd })
  for (const price of ['1.350001', '2300', '99999999999999999999999999']) {
    const answer = await notice(price)
    t.equal(answer.http, 422)
    t.match(answer.body, { code: 'implausible_price', errors: [{ pointer: 'price' }] })
  }
  t.match(ledger.rows, [
    { status: 'rejected', reason: 'implausible_price', supplier: 'acme', margin: null },
  ])
  t.equal(ledger.rows.length, 1, 'the same refusal again is no other row')
  t.same(learner.updates, [])
  t.equal(counters.money.size, 0)
  t.match((await notice('1.35')).body, { status: 'attributed' }, 'exactly maxOver times is taken')
  t.match(ledger.rows.at(-1), { status: 'attributed', over: 1, cleared: '1.35' })
  t.equal(learner.updates.length, 1)
  t.same(tally(), { rejected: 3, attributed: 1 })
  t.equal(counters.received, 4)
})

t.test('each supplier has its own limit; holdout and other currencies have the same', async (t) => {
  const wide = {
    ...integration('wide', { holdout: 1 }),
    clearing: clearingSchema.parse({ maxOver: 3 }),
  }
  const { engine, notify, tally, ledger } = await impressionsApi(t, {
    integrations: [integration('acme'), wide],
    auth: 'none',
  })
  const asked = [
    { id: 'w', supplier: 'wide', price: '1.00' },
    { id: 'y', supplier: 'acme', price: '100', cur: 'JPY' },
  ]
  for (const [title, too, fine] of [
    [asked[0]!, '2.7001', '2.7'],
    [asked[1]!, '150.1', '150'],
  ] as const) {
    const { svcOpd } = auction(engine, title)
    const notice = { bid_id: title.id, svc_opd: svcOpd }
    t.equal((await notify({ ...notice, price: too }, null)).http, 422)
    // by the bid log the same rule holds
    t.equal((await notify({ bid_id: title.id, price: too }, null)).http, 422)
    t.match((await notify({ ...notice, price: fine }, null)).body, { status: 'attributed' })
  }
  t.same(tally(), { rejected: 4, attributed: 2 })
  t.equal(ledger.rows.filter(({ status }) => status === 'attributed').length, 2)
})
