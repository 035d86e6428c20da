/** Loss notices, and the lowest price that would have won (CONTRACT 6). */
import t from 'tap'
import { clearedPrice } from '../../../admin/impressions/notice.ts'
import { deleteLosses } from '../../../admin/store/losses.ts'
import { clearingSchema } from '../../../opd/config.ts'
import { auction } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'
import { onBoth, storeAt } from '../../support/store.ts'

t.test('a loss is recorded once, and the model learns at once what would have won', async (t) => {
  const { engine, lose, notify, learner, ledger, counters } = await impressionsApi(t)
  const { svcOpd } = auction(engine, { id: 'b1' })
  const loss = { bid_id: 'b1', svc_opd: svcOpd, loss: '102', min_to_win: '1.05' }
  t.same(await lose(loss), { http: 200, body: { status: 'recorded' } })
  t.match(learner.updates, [{ kind: 'loss', minToWin: 1.05 }])
  t.match((await lose(loss)).body, { status: 'duplicate' })
  t.match((await lose({ bid_id: 'b1' })).body, { status: 'duplicate' }, 'without its context')
  auction(engine, { id: 'b2' })
  t.match((await lose({ bid_id: 'b2' })).body, { status: 'recorded' }, 'by the bid log')
  t.match(learner.updates.at(-1), { kind: 'loss', minToWin: null })
  t.match((await lose({ bid_id: 'nobody' })).body, { status: 'unattributed' })
  t.match((await lose({ bid_id: 'nobody' })).body, { status: 'duplicate' })
  t.equal(learner.updates.length, 2)
  t.same(ledger.rows, [], 'a loss is no win')
  t.same(
    [...counters.losses],
    [
      ['acme\trecorded', 2],
      ['acme\tduplicate', 2],
      ['\tunattributed', 1],
      ['\tduplicate', 1],
    ],
  )
  const { svcOpd: won } = auction(engine, { id: 'b3' })
  const win = { bid_id: 'b3', price: '0.8', svc_opd: won, min_to_win: '0.7' }
  t.match((await notify(win)).body, { status: 'attributed' })
  t.match(learner.updates.at(-1), { kind: 'win', cleared: 0.8, minToWin: 0.7 })
  t.match((await lose({ bid_id: 'b3', svc_opd: won })).body, { status: 'duplicate' }, 'it was won')
  t.equal(learner.updates.length, 3)
})

t.test(
  'a bid whose win was reported is not lost, whichever event its supplier reports',
  async (t) => {
    for (const [notices, event] of [
      ['billing', 'billing'],
      ['both', 'billing'],
      ['both', 'win'],
    ] as const) {
      const { engine, lose, notify, learner } = await impressionsApi(t, {
        integrations: [{ ...integration('acme'), notices }],
      })
      const { svcOpd } = auction(engine, { id: 'b1' })
      const win = { bid_id: 'b1', price: '0.8', svc_opd: svcOpd, event }
      t.match((await notify(win)).body, { status: 'attributed' })
      const before = learner.updates.length
      const late = await lose({ bid_id: 'b1', svc_opd: svcOpd })
      t.match(late.body, { status: 'duplicate' }, `${notices}, ${event}`)
      t.equal(learner.updates.length, before)
    }
  },
)

t.test('who may report a loss, and wrong parameters', async (t) => {
  const api = await impressionsApi(t, { auth: 'context' })
  const { svcOpd } = auction(api.engine, { id: 'b1' })
  t.equal((await api.lose({ bid_id: 'b1' }, null)).http, 401)
  t.equal((await api.lose({ bid_id: 'b1', svc_opd: 'forged' }, null)).http, 401)
  t.equal((await api.lose({ bid_id: 'b1', svc_opd: svcOpd }, null)).http, 200)
  const bearer = await impressionsApi(t)
  t.equal((await bearer.lose({ bid_id: 'b1' }, null)).http, 401)
  t.equal((await bearer.lose({ bid_id: 'b1' }, 'roleless')).http, 403)
  for (const [name, value] of [
    ['bid_id', '${AUCTION_BID_ID}'],
    ['loss', '-1'],
    ['min_to_win', '1e3'],
    ['min_to_win', '-1'],
  ] as const) {
    const answer = await bearer.lose({ bid_id: 'b1', [name]: value })
    t.equal(answer.http, 400, `${name}=${value}`)
    t.match(answer.body, { code: 'invalid_parameters', errors: [{ pointer: name }] })
  }
  const { status } = await fetch(`${bearer.url}/opd/loss?bid_id=b1`, { method: 'POST' })
  t.equal(status, 405)
})

onBoth(async (t, database) => {
  const store = await storeAt(t, database)
  const { losses } = store
  const all = await Promise.all(
    ['a', 'b', 'a', 'c'].map((decision, index) => losses.record(decision, index)),
  )
  t.same(all, [true, true, false, true])
  t.same(await Promise.all(['c', 'd'].map((decision) => losses.record(decision, 9))), [false, true])
  t.equal(await deleteLosses(store.db, 2), false)
  t.equal(await losses.record('a', 10), true, 'old ones are forgotten')
  t.equal(await losses.record('d', 10), false)
})

t.test('prices in base64, and in another currency', async (t) => {
  const encoded = integration('coded')
  encoded.clearing = { maxOver: 1.5, encoding: 'base64', currency: 'EUR' }
  const { engine, notify, ledger } = await impressionsApi(t, {
    integrations: [integration('acme'), encoded],
    encoded: true,
  })
  const base64 = (price: string) => Buffer.from(price).toString('base64url')
  const { svcOpd } = auction(engine, { id: 'c1', supplier: 'coded' })
  const notice = { bid_id: 'c1', svc_opd: svcOpd }
  for (const price of ['0.4', base64('x'), '%%', base64('-1')]) {
    const answer = await notify({ ...notice, price })
    t.equal(answer.http, 400, price)
    t.match(answer.body, { errors: [{ pointer: 'price', detail: /clearing.encoding/ }] })
  }
  t.match((await notify({ ...notice, price: base64('0.64'), cur: 'XYZ' })).body, {
    errors: [{ pointer: 'cur', detail: /no exchange rate from XYZ/ }],
  })
  t.match((await notify({ ...notice, price: base64('0.64') })).body, { status: 'attributed' })
  t.match(ledger.rows.at(-1), { cleared: '0.8', currency: 'USD', margin: '0.2' })
  const { svcOpd: other } = auction(engine, { id: 'c2' })
  const inEuro = { bid_id: 'c2', svc_opd: other, price: '0.64', cur: 'EUR' }
  t.match((await notify(inEuro)).body, { status: 'attributed' })
  t.match(ledger.rows.at(-1), { cleared: '0.8', margin: '0.2' })
  const { svcOpd: plain } = auction(engine, { id: 'c3' })
  const wrong = await notify({ bid_id: 'c3', svc_opd: plain, price: base64('0.64') })
  t.equal(wrong.http, 400, 'a plain supplier writes plain prices')
})

t.test('prices encrypted by Google: the examples of its documentation', (t) => {
  const clearing = clearingSchema.parse({
    encoding: 'google',
    keys: {
      encryption: 'skU7Ax_NL5pPAFyKdkfZjZz2-VhIN8bjj1rVFOaJ_5o=',
      integrity: 'arO23ykdNqUQ5LEoQ0FVmPkBd7xB5CO89PDZlSjpFxo=',
    },
  })
  const cleared = (price: string) => clearedPrice({ price }, clearing, 'USD', () => 1)
  for (const [price, cpm] of [
    ['YWJjMTIzZGVmNDU2Z2hpN7fhCuPemCce_6msaw', '0.1'],
    ['YWJjMTIzZGVmNDU2Z2hpN7fhCuPemCAWJRxOgA', '1.9'],
    ['YWJjMTIzZGVmNDU2Z2hpN7fhCuPemC32prpWWw', '2.7'],
  ] as const)
    t.same(cleared(price), { price: cpm })
  for (const price of ['YWJjMTIzZGVmNDU2Z2hpN7fhCuPemCce_6msaX', 'YWJj', '1.25'])
    t.match(cleared(price), { pointer: 'price' }, price)
  t.equal(clearingSchema.safeParse({ encoding: 'google' }).success, false, 'without keys')
  t.end()
})
