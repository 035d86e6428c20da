import t from 'tap'
import { auction, hour } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'

t.test('a forged, cut, foreign, expired or unexpanded context counts as absent', async (t) => {
  const { engine, notify, clock, counters } = await impressionsApi(t)
  const old = auction(engine, { id: 'old' })
  clock.now += 49 * hour
  for (const id of ['b1', 'b2', 'b3', 'b4']) auction(engine, { id })
  const other = auction(engine, { id: 'other' })
  const attributed = { status: 'attributed', by: 'bid_log' }
  const forged = `${other.svcOpd.slice(0, -2)}AA`
  t.same((await notify({ bid_id: 'b1', price: '0.9', svc_opd: other.svcOpd })).body, attributed)
  t.same((await notify({ bid_id: 'b2', price: '0.9', svc_opd: forged })).body, attributed)
  t.same((await notify({ bid_id: 'b3', price: '0.9', svc_opd: '💥' })).body, attributed)
  const macro = '${SVC_OPD_CONTEXT}'
  t.same((await notify({ bid_id: 'b4', price: '0.9', svc_opd: macro })).body, attributed)
  t.match((await notify({ bid_id: 'old', price: '0.9', svc_opd: old.svcOpd })).body, {
    status: 'unattributed',
  })
  t.same(counters.contexts, { valid: 0, absent: 0, unexpanded: 1, invalid: 3, expired: 1 })
})

t.test('auth bearer: no, a bad and a roleless token', async (t) => {
  const { engine, notify, ledger, tally } = await impressionsApi(t)
  const won = auction(engine, { id: 'b1' })
  const notice = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
  for (const token of [null, 'bad', '']) {
    const answer = await notify(notice, token)
    t.equal(answer.http, 401)
    t.match(answer.headers.get('www-authenticate'), /^Bearer/)
  }
  t.equal((await notify(notice, 'roleless')).http, 403)
  t.same(ledger.rows, [])
  t.same(tally(), { rejected: 4 })
  const outage = await notify(notice, 'outage')
  t.equal(outage.http, 503)
  t.ok(outage.headers.get('retry-after'))
  t.same(tally(), { rejected: 4 })
})

t.test('auth context: no or a forged context is 401 and kept; a valid one is enough', async (t) => {
  const { engine, notify, ledger, learner, clock } = await impressionsApi(t, { auth: 'context' })
  const won = auction(engine, { id: 'b1' })
  const bare = await notify({ bid_id: 'b1', price: '0.9' }, null)
  t.equal(bare.http, 401)
  t.equal((await notify({ bid_id: 'b1', price: '0.9', svc_opd: 'forged' }, null)).http, 401)
  const macro = { bid_id: 'b1', price: '0.9', svc_opd: '${SVC_OPD_CONTEXT}' }
  t.equal((await notify(macro, null)).http, 401)
  t.same(
    ledger.rows.map(({ status, reason, bid_id }) => [status, reason, bid_id]),
    Array.from({ length: 3 }, () => ['rejected', 'context_required', 'b1']),
  )
  t.same(learner.updates, [])
  const good = await notify({ bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }, null)
  t.same(good.body, { status: 'attributed', by: 'context' })
  t.match(learner.updates, [{ kind: 'win' }])
  auction(engine, { id: 'b2' })
  t.match((await notify({ bid_id: 'b2', price: '0.9' })).body, {
    status: 'attributed',
    by: 'bid_log',
  })
  const old = auction(engine, { id: 'b3' })
  clock.now += 49 * hour
  const expired = await notify({ bid_id: 'b3', price: '0.9', svc_opd: old.svcOpd }, null)
  t.match(expired.body, { status: 'unattributed' })
})

t.test(
  'a notice whose token cannot be checked now is answered 503 and can be sent again',
  async (t) => {
    for (const auth of ['context', 'none'] as const) {
      const { engine, notify, ledger, tally } = await impressionsApi(t, { auth })
      auction(engine, { id: 'b1' })
      const answer = await notify({ bid_id: 'b1', price: '0.9' }, 'outage')
      t.equal(answer.http, 503)
      t.match(answer.headers.get('retry-after'), /^\d+$/)
      t.equal((await notify({ bid_id: 'b1', price: 'x' }, 'outage')).http, 400)
      t.same(ledger.rows, [])
      t.same(tally(), { rejected: 1 })
      t.match((await notify({ bid_id: 'b1', price: '0.9' })).body, { status: 'attributed' })
    }
  },
)

t.test('the model does not learn from a win by bid log without a token', async (t) => {
  const { engine, notify, learner } = await impressionsApi(t, { auth: 'none' })
  auction(engine, { id: 'b1' })
  const won = auction(engine, { id: 'b2' })
  t.match((await notify({ bid_id: 'b1', price: '0.9' }, null)).body, { status: 'attributed' })
  await notify({ bid_id: 'b2', price: '0.9', svc_opd: won.svcOpd }, null)
  t.same(learner.updates, [
    { kind: 'withdraw', features: 'x1' },
    { kind: 'win', features: 'x2', cleared: 0.9 },
  ])
})

t.test("a bare bid id finds one's own suppliers only", async (t) => {
  const owners: Record<string, string> = { acme: 'acme-media', other: 'someone' }
  const { engine, notify, ledger } = await impressionsApi(t, {
    integrations: [integration('acme'), integration('other')],
    account: (supplier) => owners[supplier],
  })
  const theirs = auction(engine, { id: 'b1', supplier: 'other' })
  auction(engine, { id: 'b2', supplier: 'acme' })
  t.match((await notify({ bid_id: 'b1', price: '1' }, 'media')).body, { status: 'unattributed' })
  t.match((await notify({ bid_id: 'b2', price: '1' }, 'media')).body, { status: 'attributed' })
  const named = { bid_id: 'b9', price: '1', ssp: 'other' }
  t.match((await notify(named, 'media')).body, { status: 'unattributed' })
  t.match(
    ledger.rows.slice(-1),
    [{ bid_id: 'b9', supplier: null }],
    "another supplier's reports contain none of it",
  )
  const win = { bid_id: 'b1', price: '1', svc_opd: theirs.svcOpd }
  t.match((await notify(win)).body, { status: 'attributed' }, 'nor does it swallow their win')
})

t.test('strangers cannot fill the ledger', async (t) => {
  const { notify, ledger, counters, tally } = await impressionsApi(t, { auth: 'context' })
  for (let index = 0; index < 1010; index++) {
    const answer = await notify({ bid_id: `b${index}`, price: '1' }, null)
    if (answer.http !== 401) t.fail(String(answer.http))
  }
  t.equal(ledger.rows.length, 1000)
  t.equal(counters.refusedUnkept, 10)
  t.same(tally(), { rejected: 1010 })
})

t.test(
  'a notice without a credential costs no look-up, a good one at most two a reading',
  async (t) => {
    const asked: string[] = []
    const shared = {
      put() {},
      async find(bidId: string) {
        asked.push(bidId)
        return []
      },
      async written() {},
    }
    const { engine, send, ledger } = await impressionsApi(t, { auth: 'context', shared })
    const { svcOpd } = auction(engine, { id: 'a+b%3D' })
    for (const more of ['', '&svc_opd=forged', `&svc_opd=${svcOpd}`])
      t.equal((await send(`bid_id=x+y%253D&price=0.9${more}`, null)).status, 401)
    t.same(asked, [])
    t.ok(ledger.rows.every(({ status }) => status === 'rejected'))

    const token = await send('bid_id=x+y%253D&price=0.9')
    t.match(await token.json(), { status: 'unattributed' })
    const twice = ['x y%3D', 'x y%3D', 'x+y%3D', 'x+y%3D', 'x+y%253D', 'x+y%253D']
    t.same(asked, twice, 'the second ones after the nodes have written')
    asked.length = 0
    const logged = await send('bid_id=a%2Bb%253D&price=0.9')
    t.match(await logged.json(), { status: 'attributed', by: 'bid_log' })
    t.same(asked, ['a+b%3D'], 'no other reading is looked up where the first finds a bid')
  },
)
