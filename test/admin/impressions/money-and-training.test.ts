import { Registry } from 'prom-client'
import t from 'tap'
import { opdMetrics } from '../../../admin/metrics/registry.ts'
import { LocalBidLog } from '../../../opd/state/bid-log.ts'
import type { DecisionRecord } from '../../../opd/types.ts'
import { auction, hour } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'

t.test('a late win is recorded as late, and the model learns from it', async (t) => {
  const { engine, notify, clock, learner, ledger } = await impressionsApi(t)
  const won = auction(engine, { id: 'b1' })
  clock.now += hour
  const answer = await notify({ bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd })
  t.same(answer.body, { status: 'attributed', by: 'context', late: true })
  t.match(ledger.rows, [{ late: 1, margin: '0.1' }])
  t.match(learner.updates, [{ kind: 'win' }])
})

t.test('cleared above out_ba by more than half a percent is over, and no saving', async (t) => {
  const { engine, notify, learner, ledger } = await impressionsApi(t)
  for (const [id, price] of [
    ['a', '0.9045'],
    ['b', '0.90451'],
  ] as const) {
    const won = auction(engine, { id })
    await notify({ bid_id: id, price, svc_opd: won.svcOpd })
  }
  t.same(
    ledger.rows.map(({ over, margin }) => ({ over, margin })),
    [
      { over: 0, margin: '0.0955' },
      { over: 1, margin: '0.09549' },
    ],
  )
  t.same(
    learner.updates.map(({ kind, cleared }) => [kind, cleared]),
    [
      ['win', 0.9045],
      ['win', 0.90451],
    ],
    'the learner gets what was paid: a win, no saving, and evidence for the guard',
  )
})

t.test('a win in margin mode needs its context', async (t) => {
  const { engine, notify, ledger, learner, alerts } = await impressionsApi(t, {
    integrations: [integration('acme', { mode: 'margin' })],
  })
  const won = auction(engine, { id: 'b1' })
  for (const svc_opd of [undefined, '', '${SVC_OPD_CONTEXT}']) {
    const answer = await notify({ bid_id: 'b1', price: '0.9', svc_opd })
    t.equal(answer.http, 400)
    t.match(answer.body, { code: 'svc_opd_required', errors: [{ pointer: 'svc_opd' }] })
  }
  t.same(
    ledger.rows.map(({ status }) => status),
    ['rejected', 'rejected'],
    'the same refusal again is no other row',
  )
  const refused = { supplier: 'acme', margin: null, reason: 'svc_opd_required' }
  t.match(ledger.rows[0], { ...refused, late: 0, over: 0 })
  t.same(learner.updates, [])
  const good = await notify({ bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd })
  t.match(good.body, { status: 'attributed', by: 'context' })
  t.match((await notify({ bid_id: 'b1', price: '0.9' })).body, { status: 'duplicate' })

  auction(engine, { id: 'b2' })
  const unread = await notify({ bid_id: 'b2', price: '0.9', svc_opd: 'unreadable' })
  t.match(unread.body, { status: 'attributed', by: 'bid_log' })
  t.match(ledger.rows.at(-1), { margin: '0.1', reason: 'context_invalid' })
  t.match(learner.updates.at(-1), { kind: 'withdraw' })
  t.equal(alerts.length, 1)
  t.match((await notify({ bid_id: 'ghost', price: '1' })).body, { status: 'unattributed' })
})

t.test(
  'with notices: both, the model learns from the win and the money comes from the billing, once each',
  async (t) => {
    const { engine, notify, ledger, learner } = await impressionsApi(t, {
      integrations: [integration('acme', {}, 'both')],
    })
    const { svcOpd } = auction(engine, { id: 'b1' })
    const notice = { bid_id: 'b1', price: '0.9', svc_opd: svcOpd }
    t.match((await notify(notice)).body, { status: 'attributed' })
    t.match((await notify({ ...notice, event: 'billing' })).body, { status: 'attributed' })
    t.match((await notify({ ...notice, event: 'billing' })).body, { status: 'duplicate' })
    t.match((await notify({ ...notice, event: 'win' })).body, { status: 'duplicate' })
    t.same(
      ledger.rows.map(({ event, margin }) => [event, margin]),
      [
        ['win', null],
        ['billing', '0.1'],
      ],
    )
    t.equal(learner.updates.length, 1)
  },
)

t.test('revenue is price_dsp where the integration says so', async (t) => {
  const { engine, notify, ledger } = await impressionsApi(t, {
    integrations: [integration('acme', { priceDsp: true }), integration('other')],
  })
  for (const [index, supplier] of ['acme', 'acme', 'other'].entries()) {
    const { svcOpd } = auction(engine, { id: `b${index}`, supplier })
    const price_dsp = index === 1 ? undefined : '1.25'
    await notify({ bid_id: `b${index}`, price: '1.2', svc_opd: svcOpd, price_dsp })
  }
  t.same(
    ledger.rows.map(({ margin }) => margin),
    ['0.05', '-0.2', '-0.2'],
  )
})

t.test('the price_dsp of a standalone bid is the revenue of a notice without one', async (t) => {
  const kept: DecisionRecord[] = []
  const shared = {
    put: (record: DecisionRecord) => void kept.push(record),
    find: async (bidId: string) => kept.filter((record) => record.bidId === bidId),
    written: async () => {},
  }
  const { engine, node, listen, ledger } = await impressionsApi(t, {
    integrations: [integration('acme', { priceDsp: true }), integration('other')],
    shared,
  })
  const rows: [string, string, object, boolean, string | undefined, string][] = [
    ['by context', 'acme', { price: 2.0, price_dsp: 2.6 }, true, undefined, '0.7'],
    ['by bid log', 'acme', { price: 2.0, price_dsp: 2.6 }, false, undefined, '0.7'],
    ["the notice's own wins", 'acme', { price: 2.0, price_dsp: 2.6 }, true, '2.5', '0.6'],
    ['none', 'acme', { price: 2.0 }, true, undefined, '0.1'],
    ['price is absent', 'acme', { price_dsp: 2.6 }, true, undefined, '0.7'],
    ['an exponent', 'acme', { price: 2.0, price_dsp: '26e-1' }, true, undefined, '0.7'],
    ['not on the demand side', 'other', { price: 2.0, price_dsp: 2.6 }, true, undefined, '0.1'],
  ]
  for (const elsewhere of [false, true]) {
    const { notify } = await listen(elsewhere ? node() : engine)
    for (const [name, supplier, prices, withContext, price_dsp, margin] of rows) {
      const bid_id = `${name} ${elsewhere}`
      const bid = JSON.stringify({ id: bid_id, ...prices }).replace('"26e-1"', '26e-1')
      const answer = engine.priceStandalone(supplier, Buffer.from(`{"seatbid":[{"bid":[${bid}]}]}`))
      if (!answer.ok) throw new Error('refused')
      const svc_opd = [...answer.entries][0]!.context
      const given = withContext ? { svc_opd } : {}
      const { body } = await notify({ bid_id, price: '1.9', price_dsp, ...given })
      t.match(body, { status: 'attributed', by: withContext ? 'context' : 'bid_log' })
      t.equal(ledger.rows.at(-1)?.margin, margin, bid_id)
    }
  }
})

t.test(
  'a test is no money; a win in a currency without a rate is money in that currency',
  async (t) => {
    const { engine, notify, ledger, learner, counters } = await impressionsApi(t)
    const test = auction(engine, { id: 't', test: true })
    await notify({ bid_id: 't', price: '1', svc_opd: test.svcOpd })
    const yen = auction(engine, { id: 'y', cur: 'JPY', price: '100' })
    await notify({ bid_id: 'y', price: '90', svc_opd: yen.svcOpd })
    t.match(ledger.rows, [
      { arm: 'test', margin: null },
      { arm: 'no_rate', margin: '10', currency: 'JPY' },
    ])
    t.same(learner.updates, [])
    t.equal(counters.money.get('acme\trevenue')?.margin, 0)
    const euro = auction(engine, { id: 'e', cur: 'EUR', price: '0.8' })
    await notify({ bid_id: 'e', price: '0.72', svc_opd: euro.svcOpd })
    t.match(ledger.rows.at(-1), { in_ba: '0.8', out_ba: '0.72', margin: '0.08', currency: 'EUR' })
    t.ok(Math.abs(learner.updates[0]!.cleared! - 0.9) < 1e-9)
  },
)

t.test('received is the sum of what became of notices, and the metrics say so', async (t) => {
  const { engine, notify, counters, send } = await impressionsApi(t)
  const registry = new Registry()
  opdMetrics(registry, {
    stats: engine.stats,
    counters,
    kept: () => [],
    invalid: () => [{ ssp: 'acme', invalid: false }],
    bidLog: new LocalBidLog({ ttl: hour, now: () => 0 }),
    model: () => ({ version: 7, ageSeconds: 60 }),
  })
  const won = auction(engine, { id: 'b1' })
  for (const svc_opd of [won.svcOpd, undefined])
    await notify({ bid_id: 'b1', price: '0.9', svc_opd })
  await notify({ bid_id: 'ghost', price: '1' })
  await notify({ bid_id: 'ghost', price: 'AUDIT' })
  await notify({ bid_id: 'ghost', price: 'bad' })
  await notify({ bid_id: 'b1', price: '0.9' }, 'bad')
  await send('', 'good', 'POST')
  const text = await registry.metrics()
  const value = (line: RegExp) => Number(line.exec(text)?.[1])
  t.equal(value(/^bidweir_impressions_received_total (\d+)$/m), 6)
  const parts = [...text.matchAll(/^bidweir_impressions_total\{.*\} (\d+)$/gm)]
  t.equal(
    parts.reduce((sum, [, part]) => sum + Number(part), 0),
    6,
  )
  t.equal(value(/^bidweir_bids_total\{ssp="acme",mode="revenue",reason="treated"\} (\d+)$/m), 1)
  t.equal(value(/^bidweir_publisher_impressions_total\{.*publisher="pub-1"\} (\d+)$/m), 1)
  t.equal(value(/^bidweir_margin_sum\{ssp="acme",mode="revenue"\} ([\d.]+)$/m), 0.1)
  t.equal(value(/^bidweir_model_version\{mode="revenue"\} (\d+)$/m), 7)
})

t.test(
  'what the dashboard sums is the ledger: the event that is money, the demand side, all wins',
  async (t) => {
    const { engine, notify } = await impressionsApi(t, {
      auth: 'none',
      integrations: [
        integration('both', {}, 'both'),
        integration('dsp', { priceDsp: true }),
        integration('open'),
      ],
    })
    const rowsOf = (supplier: string) =>
      engine.stats.supplierStats(supplier).modes.revenue.sums('treated')
    const both = {
      bid_id: 'b1',
      price: '0.8',
      svc_opd: auction(engine, { id: 'b1', supplier: 'both' }).svcOpd,
    }
    await notify(both, null)
    t.match(rowsOf('both'), { wins: 1, cleared: 0, margin: 0 })
    await notify({ ...both, price: '0.7', event: 'billing' }, null)
    t.match(rowsOf('both'), { wins: 1, cleared: 0.7, margin: 0.3 })
    const { svcOpd } = auction(engine, { id: 'b2', supplier: 'dsp' })
    await notify({ bid_id: 'b2', price: '0.5', price_dsp: '2.5', svc_opd: svcOpd }, null)
    t.match(rowsOf('dsp'), { wins: 1, cleared: 0.5, margin: 2 })
    auction(engine, { id: 'b3', supplier: 'open' })
    await notify({ bid_id: 'b3', price: '0.75' }, null)
    t.match(
      rowsOf('open'),
      { wins: 1, margin: 0.25 },
      'a win that the model may not learn from is counted',
    )
  },
)

t.test('an impression counts once by publisher, whichever events come', async (t) => {
  const { engine, notify, counters } = await impressionsApi(t, {
    integrations: [integration('acme', {}, 'both')],
  })
  const win = { bid_id: 'b1', price: '0.8', svc_opd: auction(engine, { id: 'b1' }).svcOpd }
  await notify(win)
  await notify({ ...win, event: 'billing' })
  t.match([...counters.publishers.samples()], [{ ssp: 'acme', name: 'pub-1', value: 1 }])
})

t.test('a win whose clock is ahead is still the one that came bare before it', async (t) => {
  const { engine, node, notify, listen, clock, ledger } = await impressionsApi(t)
  clock.now += 4 * 60_000
  const won = auction(engine, { id: 'b1' })
  clock.now -= 4 * 60_000
  const other = await listen(node())
  t.match((await other.notify({ bid_id: 'b1', price: '0.9' })).body, { status: 'unattributed' })
  const notice = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
  t.match((await notify(notice)).body, { status: 'attributed', by: 'context' })
  t.equal(ledger.rows.length, 1)
})
