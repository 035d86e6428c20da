import t from 'tap'
import { auction, hour } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'

t.test(
  'a win with a context is attributed; the same one again, with or without it, is a duplicate',
  async (t) => {
    const { engine, notify, ledger, learner, counters } = await impressionsApi(t)
    const won = auction(engine, { id: 'b1' })
    t.match(won, { price: 0.9, in: '1.00', out: '0.9', mode: 'revenue' })
    const first = await notify({ bid_id: 'b1', price: '0.90', svc_opd: won.svcOpd })
    t.same(first.body, { status: 'attributed', by: 'context' })
    t.equal(first.headers.get('cache-control'), 'no-store')
    t.same((await notify({ bid_id: 'b1', price: '0.90' })).body, {
      status: 'duplicate',
      by: 'bid_log',
    })
    const again = await notify({ bid_id: 'b1', price: '0.90', svc_opd: won.svcOpd })
    t.same(again.body, { status: 'duplicate', by: 'context' })
    t.match(ledger.rows, [
      {
        bid_id: 'b1',
        supplier: 'acme',
        in_ba: '1.00',
        out_ba: '0.9',
        cleared: '0.90',
        margin: '0.1',
      },
    ])
    t.same(learner.updates, [{ kind: 'win', features: 'x1', cleared: 0.9 }])
    t.equal(counters.received, 3)
  },
)

t.test(
  'a win without a context is attributed by the bid log, and is then a duplicate with it',
  async (t) => {
    const { engine, notify } = await impressionsApi(t)
    const won = auction(engine, { id: 'b1' })
    t.same((await notify({ bid_id: 'b1', price: '0.8' })).body, {
      status: 'attributed',
      by: 'bid_log',
    })
    const again = await notify({ bid_id: 'b1', price: '0.8', svc_opd: won.svcOpd })
    t.match(again.body, { status: 'duplicate' })
  },
)

t.test(
  'unattributed once, then a duplicate, attributed by its context, also after a restart',
  async (t) => {
    const { engine, node, notify, listen, clock, ledger } = await impressionsApi(t)
    t.same((await notify({ bid_id: 'ghost', price: '1' })).body, {
      status: 'unattributed',
      by: null,
    })
    t.same((await notify({ bid_id: 'ghost', price: '1' })).body, { status: 'duplicate', by: null })
    const restarted = await listen(node())
    t.match((await restarted.notify({ bid_id: 'ghost', price: '1' })).body, { status: 'duplicate' })

    const won = auction(engine, { id: 'b1' })
    t.match((await restarted.notify({ bid_id: 'b1', price: '0.9' })).body, {
      status: 'unattributed',
    })
    const withContext = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
    t.match((await restarted.notify(withContext)).body, { status: 'attributed', by: 'context' })
    t.match((await restarted.notify(withContext)).body, { status: 'duplicate' })
    t.match((await notify({ bid_id: 'b1', price: '0.9' })).body, { status: 'duplicate' })

    const second = auction(engine, { id: 'b2' })
    await notify({ bid_id: 'b2', price: '0.9', svc_opd: second.svcOpd })
    t.match((await restarted.notify({ bid_id: 'b2', price: '0.9' })).body, { status: 'duplicate' })

    clock.now += 49 * hour
    t.match((await notify({ bid_id: 'ghost', price: '1' })).body, { status: 'unattributed' })
    t.match((await notify({ bid_id: 'ghost', price: '1' })).body, { status: 'duplicate' })
    t.equal(ledger.rows.length, 4)
  },
)

t.test('an unattributed notice of before the bid is another win', async (t) => {
  const { engine, notify, clock } = await impressionsApi(t)
  await notify({ bid_id: 'b1', price: '1' })
  clock.now += 60_000
  const won = auction(engine, { id: 'b1' })
  const notice = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
  t.match((await notify(notice)).body, { status: 'attributed', by: 'context' })
})

t.test('a win that was counted stays one when its context has expired', async (t) => {
  const { engine, notify, clock } = await impressionsApi(t)
  const won = auction(engine, { id: 'b1' })
  const lost = auction(engine, { id: 'b2' })
  const notice = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
  t.match((await notify(notice)).body, { status: 'attributed' })
  clock.now += 49 * hour
  t.same((await notify(notice)).body, { status: 'duplicate', by: null })
  const late = await notify({ bid_id: 'b2', price: '0.9', svc_opd: lost.svcOpd })
  t.same(late.body, { status: 'unattributed', by: null })
})

t.test('the same bid id twice makes two decisions; the bare id is the latest', async (t) => {
  const { engine, notify } = await impressionsApi(t)
  const first = auction(engine, { id: 'b1' })
  const second = auction(engine, { id: 'b1' })
  t.not(first.svcOpd, second.svcOpd)
  t.match((await notify({ bid_id: 'b1', price: '0.9' })).body, { status: 'attributed' })
  const late = await notify({ bid_id: 'b1', price: '0.9', svc_opd: second.svcOpd })
  t.match(late.body, { status: 'duplicate' })
  const other = await notify({ bid_id: 'b1', price: '0.9', svc_opd: first.svcOpd })
  t.match(other.body, { status: 'attributed', by: 'context' })
})

t.test('one bid id of several suppliers is ambiguous, unless the notice names one', async (t) => {
  const { engine, notify, ledger } = await impressionsApi(t, {
    integrations: [integration('acme'), integration('other')],
  })
  auction(engine, { id: 'b1' })
  auction(engine, { id: 'b1', supplier: 'other' })
  t.same((await notify({ bid_id: 'b1', price: '0.9', ssp: 'acme' })).body, {
    status: 'attributed',
    by: 'bid_log',
  })
  auction(engine, { id: 'b2' })
  auction(engine, { id: 'b2', supplier: 'other' })
  t.same((await notify({ bid_id: 'b2', price: '0.9' })).body, {
    status: 'unattributed',
    by: null,
    reason: 'ambiguous',
  })
  t.match(ledger.rows.at(-1), { reason: 'ambiguous', decision: 'bid:b2' })
})

t.test('identical notices at the same moment are one win', async (t) => {
  const { engine, notify, tally, learner } = await impressionsApi(t)
  const won = auction(engine, { id: 'b1' })
  const notices = Array.from({ length: 20 }, (_, index) => ({
    bid_id: 'b1',
    price: '0.9',
    svc_opd: index % 2 === 0 ? won.svcOpd : undefined,
  }))
  await Promise.all(notices.map((notice) => notify(notice)))
  t.same(tally(), { attributed: 1, duplicate: 19 })
  t.equal(learner.updates.length, 1)
  await Promise.all(Array.from({ length: 20 }, () => notify({ bid_id: 'ghost', price: '1' })))
  t.same(tally(), { attributed: 1, unattributed: 1, duplicate: 38 })
})

t.test('a store that is lost is 503, counts nothing, and the win comes in later', async (t) => {
  const { engine, notify, ledger, counters, learner } = await impressionsApi(t)
  const won = auction(engine, { id: 'b1' })
  const notice = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
  ledger.fails = true
  const lost = await notify(notice)
  t.equal(lost.http, 503)
  t.equal(lost.headers.get('retry-after'), '1')
  t.equal((await notify({ bid_id: 'ghost', price: '1' })).http, 503)
  t.equal(counters.received, 0)
  t.same(learner.updates, [])
  ledger.fails = false
  t.match((await notify(notice)).body, { status: 'attributed' })
})

t.test('an unattributed win becomes one decision of its bid id', async (t) => {
  const { engine, notify, node, listen, ledger } = await impressionsApi(t, {
    integrations: [integration('acme'), integration('other')],
  })
  const first = auction(engine, { id: '1' })
  const second = auction(engine, { id: '1' })
  const third = auction(engine, { id: '1', supplier: 'other' })
  const bare = await notify({ bid_id: '1', price: '0.9' })
  t.match(bare.body, { status: 'unattributed', reason: 'ambiguous' })
  const restarted = await listen(node())
  const statusOf = async ({ svcOpd }: { svcOpd: string }) =>
    (await restarted.notify({ bid_id: '1', price: '0.9', svc_opd: svcOpd })).body['status']
  t.same(
    [await statusOf(first), await statusOf(second), await statusOf(third), await statusOf(first)],
    ['attributed', 'attributed', 'attributed', 'duplicate'],
  )
  t.same(
    ledger.rows.map(({ status }) => status),
    ['attributed', 'attributed', 'attributed'],
    'each decision is one row, and none is left without',
  )
  t.equal(ledger.replaced, 1)
})

t.test('wins of bids that all carry one id do not wait for each other', async (t) => {
  const { engine, notify, ledger, tally } = await impressionsApi(t)
  const won = Array.from({ length: 30 }, () => auction(engine, { id: '1' }))
  const { record } = ledger
  let arrived = 0
  let open = () => {}
  const all = new Promise<void>((resolve) => {
    open = resolve
  })
  ledger.record = async (entry) => {
    arrived++
    if (arrived === won.length) open()
    await all
    return record(entry)
  }
  await Promise.all(won.map(({ svcOpd }) => notify({ bid_id: '1', price: '0.9', svc_opd: svcOpd })))
  t.same(tally(), { attributed: 30 })
})

t.test('notices with and without context at once are one row', async (t) => {
  const { engine, node, notify, listen, tally, ledger } = await impressionsApi(t)
  const won = auction(engine, { id: 'b1' })
  const other = await listen(node())
  // on a node that knows no bid the bare notice has no decision to meet at
  const notices = Array.from({ length: 12 }, (_, index) => ({
    bid_id: 'b1',
    price: '0.9',
    svc_opd: index === 5 ? won.svcOpd : undefined,
  }))
  await Promise.all(notices.map((notice) => other.notify(notice)))
  const { attributed, unattributed = 0, duplicate } = other.tally()
  t.equal(attributed, 1)
  t.equal(unattributed, ledger.replaced, 'each other answer is of a row that was replaced')
  t.equal(unattributed + duplicate!, 11)
  t.match(ledger.rows, [{ status: 'attributed' }])
  t.equal(ledger.rows.length, 1)
  t.same(tally(), {}, 'the first node has counted nothing')
  await notify(notices[0]!)
  t.same(tally(), { duplicate: 1 })
})
