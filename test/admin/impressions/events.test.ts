/** Which event teaches and which is money, by the supplier's `notices`; each counts once (CONTRACT 6). */
import t from 'tap'
import type { Integration } from '../../../opd/config.ts'
import { auction } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'

type Event = 'win' | 'billing'
const rules: Readonly<Record<Integration['notices'], { teaches: Event; money: Event }>> = {
  win: { teaches: 'win', money: 'win' },
  billing: { teaches: 'billing', money: 'billing' },
  both: { teaches: 'win', money: 'billing' },
}
const orders: readonly (readonly Event[])[] = [
  ['win'],
  ['billing'],
  ['win', 'billing'],
  ['billing', 'win'],
]
for (const [notices, { teaches, money }] of Object.entries(rules))
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
      t.equal(learner.taught.length, order.includes(teaches) ? 1 : 0)
      t.same(tally(), { attributed: order.length, duplicate: order.length })
    })
