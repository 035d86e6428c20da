import { once } from 'node:events'
import { connect } from 'node:net'
import Fastify from 'fastify'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { TokenError } from '../../admin/auth/errors.ts'
import { ImpressionCounters } from '../../admin/impressions/counters.ts'
import type { ImpressionAuth } from '../../admin/impressions/door.ts'
import { impressions } from '../../admin/impressions.ts'
import { opdMetrics } from '../../admin/opd-metrics.ts'
import type { Caller } from '../../admin/ports.ts'
import type { SeenDecisions } from '../../opd/ports.ts'
import { createBidLog } from '../../opd/state/bidlog.ts'
import { auction, hour, type TestEngineOptions, testEngine } from '../support/engine.ts'
import { integration, memoryLedger } from '../support/opd.ts'

const callers: Readonly<Record<string, Caller>> = {
  good: { subject: 'u', account: '*', roles: new Set(['api']) },
  media: { subject: 'm', account: 'acme-media', roles: new Set(['api']) },
  roleless: { subject: 'r', account: '*', roles: new Set() },
}

interface DoorOptions extends Partial<TestEngineOptions> {
  auth?: ImpressionAuth
  seen?: SeenDecisions
  account?: (supplier: string) => string | undefined
}

type Params = Record<string, string | undefined>

async function door(t: Test, options: DoorOptions = {}) {
  const world = testEngine({ integrations: [integration('acme')], ...options })
  const ledger = memoryLedger()
  const alerts: string[] = []
  const nodes: { close: () => Promise<unknown> }[] = []
  t.teardown(() => Promise.all(nodes.map((node) => node.close())))

  async function listen(engine: typeof world.engine) {
    const counters = new ImpressionCounters()
    const app = Fastify({ exposeHeadRoutes: false })
    const deps = {
      engine,
      ledger,
      seen: options.seen ?? null,
      auth: options.auth ?? 'bearer',
      contextTtl: () => 48 * hour,
      integration: (id: string) => engine.integration(id),
      account: options.account,
      now: world.now,
      alert: (what: string) => alerts.push(what),
      counters,
      role: 'api',
      log: { error: () => {} },
      verifier: {
        verify: (token: string) => {
          const caller = callers[token]
          if (token === 'outage') throw new TokenError('unavailable')
          if (caller === undefined) throw new TokenError('signature')
          return caller
        },
      },
    }
    await app.register(impressions(deps))
    const url = await app.listen({ port: 0 })
    nodes.push(app)
    const send = (query: string, token: string | null = 'good', method = 'GET') =>
      fetch(`${url}/opd/imp?${query}`, {
        method,
        headers: token === null ? {} : { authorization: `Bearer ${token}` },
      })
    /** A notice; answers status and body. */
    async function notify(params: Params, token: string | null = 'good') {
      const given = Object.entries(params).filter(([, value]) => value !== undefined)
      const response = await send(String(new URLSearchParams(given as [string, string][])), token)
      const body = (await response.json()) as Record<string, unknown>
      return { ...body, http: response.status, headers: response.headers, body }
    }
    const tally = () => {
      const by: Record<string, number> = {}
      for (const [key, value] of counters.impressions)
        by[key.split('\t')[2]!] = (by[key.split('\t')[2]!] ?? 0) + value
      return by
    }
    return { engine, counters, send, notify, tally, url, app }
  }

  return { ...world, ledger, alerts, listen, ...(await listen(world.engine)) }
}

t.test('a win with its context, and the same one again with and without', async (t) => {
  const { engine, notify, ledger, learner, counters } = await door(t)
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
    { bidId: 'b1', supplier: 'acme', inBa: '1.00', outBa: '0.9', cleared: '0.90', margin: '0.1' },
  ])
  t.same(learner.taught, [{ kind: 'win', features: 'x1', cleared: 0.9 }])
  t.equal(counters.received, 3)
})

t.test('a win without context by the bid log, then with it', async (t) => {
  const { engine, notify } = await door(t)
  const won = auction(engine, { id: 'b1' })
  t.same((await notify({ bid_id: 'b1', price: '0.8' })).body, {
    status: 'attributed',
    by: 'bid_log',
  })
  const again = await notify({ bid_id: 'b1', price: '0.8', svc_opd: won.svcOpd })
  t.match(again.body, { status: 'duplicate' })
})

t.test('each bad parameter is named', async (t) => {
  const { send, tally } = await door(t)
  const cases: [string, string[]][] = [
    ['', ['bid_id', 'price']],
    ['bid_id=&price=', ['bid_id', 'price']],
    ['bid_id=a&bid_id=a&price=1', ['bid_id']],
    ['bid_id=a&price=1&price=1', ['price']],
    ['bid_id=a&price=1&svc_opd=a&svc_opd=b', ['svc_opd']],
    ['bid_id=a&price=-1', ['price']],
    ['bid_id=a&price=1e3', ['price']],
    ['bid_id=a&price=0x10', ['price']],
    ['bid_id=a&price=1,5', ['price']],
    ['bid_id=a&price=NaN', ['price']],
    ['bid_id=a&price=%201', ['price']],
    ['bid_id=a&price=audit', ['price']],
    [`bid_id=a&price=${'9'.repeat(400)}`, ['price']],
    ['bid_id=a&price=${AUCTION_PRICE}', ['price']],
    ['bid_id=%24%7BAUCTION_BID_ID%7D&price=1', ['bid_id']],
    ['bid_id=a&price=1&price_dsp=x&event=click&ssp=${SSP}', ['ssp', 'event', 'price_dsp']],
  ]
  for (const [query, bad] of cases) {
    const response = await send(query)
    const body = (await response.json()) as { errors: { pointer: string }[] }
    t.equal(response.status, 400, query)
    t.equal(response.headers.get('content-type'), 'application/problem+json; charset=utf-8')
    t.equal(response.headers.get('cache-control'), 'no-store')
    t.same(
      body.errors.map(({ pointer }) => pointer),
      bad,
      query,
    )
  }
  t.same(tally(), { rejected: cases.length })
})

t.test('AUDIT is a test rendering', async (t) => {
  const { notify, ledger, tally } = await door(t)
  t.same((await notify({ bid_id: 'a', price: 'AUDIT' })).body, { status: 'ignored', by: null })
  t.same(ledger.rows, [])
  t.same(tally(), { ignored: 1 })
})

t.test('only GET counts', async (t) => {
  const { engine, send, ledger, counters } = await door(t)
  const won = auction(engine, { id: 'b1' })
  for (const method of ['HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const response = await send(`bid_id=b1&price=1&svc_opd=${won.svcOpd}`, 'good', method)
    t.equal(response.status, 405, method)
    t.equal(response.headers.get('allow'), 'GET')
    t.equal(response.headers.get('cache-control'), 'no-store')
  }
  t.same(ledger.rows, [])
  t.equal(counters.received, 0)
})

t.test('a forged, cut, foreign, expired or unexpanded context counts as absent', async (t) => {
  const { engine, notify, clock, counters } = await door(t)
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

t.test(
  'unattributed once, then a duplicate, also with its context and after a restart',
  async (t) => {
    const { engine, node, notify, listen, clock, ledger } = await door(t)
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
  const { engine, notify, clock } = await door(t)
  await notify({ bid_id: 'b1', price: '1' })
  clock.now += 60_000
  const won = auction(engine, { id: 'b1' })
  const notice = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
  t.match((await notify(notice)).body, { status: 'attributed', by: 'context' })
})

t.test('the same bid id twice makes two decisions; the bare id is the latest', async (t) => {
  const { engine, notify } = await door(t)
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
  const { engine, notify, ledger } = await door(t, {
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
  const { engine, notify, tally, learner } = await door(t)
  const won = auction(engine, { id: 'b1' })
  const notices = Array.from({ length: 20 }, (_, index) => ({
    bid_id: 'b1',
    price: '0.9',
    svc_opd: index % 2 === 0 ? won.svcOpd : undefined,
  }))
  await Promise.all(notices.map((notice) => notify(notice)))
  t.same(tally(), { attributed: 1, duplicate: 19 })
  t.equal(learner.taught.length, 1)
  await Promise.all(Array.from({ length: 20 }, () => notify({ bid_id: 'ghost', price: '1' })))
  t.same(tally(), { attributed: 1, unattributed: 1, duplicate: 38 })
})

t.test('a store that is lost is 503, counts nothing, and the win comes in later', async (t) => {
  const { engine, notify, ledger, counters, learner } = await door(t)
  const won = auction(engine, { id: 'b1' })
  const notice = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
  ledger.fails = true
  const lost = await notify(notice)
  t.equal(lost.http, 503)
  t.equal(lost.headers.get('retry-after'), '1')
  t.equal((await notify({ bid_id: 'ghost', price: '1' })).http, 503)
  t.equal(counters.received, 0)
  t.same(learner.taught, [])
  ledger.fails = false
  t.match((await notify(notice)).body, { status: 'attributed' })
})

t.test('late wins say so, and are taught', async (t) => {
  const { engine, notify, clock, learner, ledger } = await door(t)
  const won = auction(engine, { id: 'b1' })
  clock.now += hour
  const answer = await notify({ bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd })
  t.same(answer.body, { status: 'attributed', by: 'context', late: true })
  t.match(ledger.rows, [{ late: true, margin: '0.1' }])
  t.match(learner.taught, [{ kind: 'win' }])
})

t.test('cleared above out_ba by more than half a percent is over, and no saving', async (t) => {
  const { engine, notify, learner, ledger } = await door(t)
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
      { over: false, margin: '0.0955' },
      { over: true, margin: '0.09549' },
    ],
  )
  t.same(
    learner.taught.map(({ cleared }) => cleared),
    [0.9, 0.9],
  )
})

t.test('auth bearer: no, a bad and a roleless token', async (t) => {
  const { engine, notify, ledger, tally } = await door(t)
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
  const { engine, notify, ledger, learner, clock } = await door(t, { auth: 'context' })
  const won = auction(engine, { id: 'b1' })
  const bare = await notify({ bid_id: 'b1', price: '0.9' }, null)
  t.equal(bare.http, 401)
  t.equal((await notify({ bid_id: 'b1', price: '0.9', svc_opd: 'forged' }, null)).http, 401)
  const macro = { bid_id: 'b1', price: '0.9', svc_opd: '${SVC_OPD_CONTEXT}' }
  t.equal((await notify(macro, null)).http, 401)
  t.same(
    ledger.rows.map(({ status, reason, bidId }) => [status, reason, bidId]),
    Array.from({ length: 3 }, () => ['rejected', 'context_required', 'b1']),
  )
  t.same(learner.taught, [])
  const good = await notify({ bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }, null)
  t.same(good.body, { status: 'attributed', by: 'context' })
  t.match(learner.taught, [{ kind: 'win' }])
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

t.test('a win by bid log without a token never teaches', async (t) => {
  const { engine, notify, learner } = await door(t, { auth: 'none' })
  auction(engine, { id: 'b1' })
  const won = auction(engine, { id: 'b2' })
  t.match((await notify({ bid_id: 'b1', price: '0.9' }, null)).body, { status: 'attributed' })
  await notify({ bid_id: 'b2', price: '0.9', svc_opd: won.svcOpd }, null)
  t.same(learner.taught, [
    { kind: 'withdraw', features: 'x1' },
    { kind: 'win', features: 'x2', cleared: 0.9 },
  ])
})

t.test('margin balancing asks for the context', async (t) => {
  const { engine, notify, ledger, learner, alerts } = await door(t, {
    integrations: [integration('acme', { mode: 'margin' })],
  })
  const won = auction(engine, { id: 'b1' })
  for (const svc_opd of [undefined, '', '${SVC_OPD_CONTEXT}']) {
    const answer = await notify({ bid_id: 'b1', price: '0.9', svc_opd })
    t.equal(answer.http, 400)
    t.match(answer.body, { code: 'svc_opd_required', errors: [{ pointer: 'svc_opd' }] })
  }
  t.ok(ledger.rows.every(({ status }) => status === 'rejected'))
  t.match(ledger.rows[0], { supplier: 'acme', margin: null, reason: 'svc_opd_required' })
  t.same(learner.taught, [])
  const good = await notify({ bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd })
  t.match(good.body, { status: 'attributed', by: 'context' })
  t.match((await notify({ bid_id: 'b1', price: '0.9' })).body, { status: 'duplicate' })

  auction(engine, { id: 'b2' })
  const unread = await notify({ bid_id: 'b2', price: '0.9', svc_opd: 'unreadable' })
  t.match(unread.body, { status: 'attributed', by: 'bid_log' })
  t.match(ledger.rows.at(-1), { margin: '0.1', reason: 'context_invalid' })
  t.match(learner.taught.at(-1), { kind: 'withdraw' })
  t.equal(alerts.length, 1)
  t.match((await notify({ bid_id: 'ghost', price: '1' })).body, { status: 'unattributed' })
})

t.test('notices both: win teaches, billing is money, each counts once', async (t) => {
  const { engine, notify, ledger, learner } = await door(t, {
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
  t.equal(learner.taught.length, 1)
})

t.test('revenue is price_dsp where the integration says so', async (t) => {
  const { engine, notify, ledger } = await door(t, {
    integrations: [integration('acme', { priceDsp: true }), integration('other')],
  })
  for (const [index, supplier] of ['acme', 'acme', 'other'].entries()) {
    const { svcOpd } = auction(engine, { id: `b${index}`, supplier })
    const price_dsp = index === 1 ? undefined : '1.25'
    await notify({ bid_id: `b${index}`, price: '1.5', svc_opd: svcOpd, price_dsp })
  }
  t.same(
    ledger.rows.map(({ margin }) => margin),
    ['-0.25', '-0.5', '-0.5'],
  )
})

t.test('tests are no money; a currency without a rate is, in its own', async (t) => {
  const { engine, notify, ledger, learner, counters } = await door(t)
  const test = auction(engine, { id: 't', test: true })
  await notify({ bid_id: 't', price: '1', svc_opd: test.svcOpd })
  const yen = auction(engine, { id: 'y', cur: 'JPY', price: '100' })
  await notify({ bid_id: 'y', price: '90', svc_opd: yen.svcOpd })
  t.match(ledger.rows, [
    { arm: 'test', margin: null },
    { arm: 'no_rate', margin: '10', currency: 'JPY' },
  ])
  t.same(learner.taught, [])
  t.equal(counters.money.get('acme\trevenue')?.margin, 0)
  const euro = auction(engine, { id: 'e', cur: 'EUR', price: '0.8' })
  await notify({ bid_id: 'e', price: '0.72', svc_opd: euro.svcOpd })
  t.match(ledger.rows.at(-1), { inBa: '0.8', outBa: '0.72', margin: '0.08', currency: 'EUR' })
  t.ok(Math.abs(learner.taught[0]!.cleared! - 0.9) < 1e-9)
})

t.test("a bare bid id finds one's own suppliers only", async (t) => {
  const owners: Record<string, string> = { acme: 'acme-media', other: 'someone' }
  const { engine, notify } = await door(t, {
    integrations: [integration('acme'), integration('other')],
    account: (supplier) => owners[supplier],
  })
  auction(engine, { id: 'b1', supplier: 'other' })
  auction(engine, { id: 'b2', supplier: 'acme' })
  t.match((await notify({ bid_id: 'b1', price: '1' }, 'media')).body, { status: 'unattributed' })
  t.match((await notify({ bid_id: 'b2', price: '1' }, 'media')).body, { status: 'attributed' })
})

t.test(
  'what another node has counted is a duplicate; a lost Redis leaves it to the ledger',
  async (t) => {
    const claims = new Map<string, 'claimed' | 'confirmed'>()
    let down = false
    const seen: SeenDecisions = {
      async claim(decision, event) {
        if (down) throw new Error('no Redis')
        const key = `${decision} ${event}`
        if (claims.has(key)) return 'seen'
        claims.set(key, 'claimed')
        return 'new'
      },
      confirm: (decision, event) => void claims.set(`${decision} ${event}`, 'confirmed'),
      release: (decision, event) => void claims.delete(`${decision} ${event}`),
    }
    const { engine, notify, ledger } = await door(t, { seen })
    const won = auction(engine, { id: 'b1' })
    const notice = { bid_id: 'b1', price: '0.9', svc_opd: won.svcOpd }
    ledger.fails = true
    t.equal((await notify(notice)).http, 503)
    t.equal(claims.size, 0)
    ledger.fails = false
    t.match((await notify(notice)).body, { status: 'attributed' })
    ledger.rows = []
    t.match((await notify(notice)).body, { status: 'duplicate' })
    down = true
    t.match((await notify(notice)).body, { status: 'attributed' })
  },
)

t.test('any bid id that a supplier may send', async (t) => {
  const { engine, notify, ledger } = await door(t)
  for (const id of ['\0', 'a+b/c==', 'ü 💸', 'x'.repeat(6000), '__proto__', '%', '"\\', 'bid:b']) {
    const won = auction(engine, { id })
    const answer = await notify({ bid_id: id, price: '0.9', svc_opd: won.svcOpd })
    t.match(answer.body, { status: 'attributed', by: 'context' }, id.slice(0, 20))
  }
  t.ok(ledger.rows.every(({ bidId, decision }) => !bidId.includes('\0') && decision.length < 300))
})

t.test('a plus sign in a bid id that was not escaped', async (t) => {
  const { engine, send } = await door(t)
  const won = auction(engine, { id: 'a+b/c==' })
  auction(engine, { id: 'd+e' })
  auction(engine, { id: 'f g' })
  for (const [query, by] of [
    [`bid_id=a+b/c==&price=0.9&svc_opd=${won.svcOpd}`, 'context'],
    ['bid_id=d+e&price=0.9', 'bid_log'],
    ['bid_id=f+g&price=0.9', 'bid_log'],
  ] as const)
    t.match(await (await send(query)).json(), { status: 'attributed', by }, query)
})

t.test('received is the sum of what became of notices, and the metrics say so', async (t) => {
  const { engine, notify, counters, send } = await door(t)
  const registry = new Registry()
  opdMetrics(registry, {
    stats: engine.stats,
    counters,
    invalid: () => [{ ssp: 'acme', invalid: false }],
    bidLog: createBidLog({ ttl: hour, now: () => 0 }),
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

t.test('a query that is no text breaks nothing', async (t) => {
  const { app } = await door(t)
  const { port } = app.server.address() as { port: number }
  for (const query of ['%', '%zz=%', 'bid_id=%ff%fe&price=1', '&&&===', '__proto__=1&price=1']) {
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `GET /opd/imp?${query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nConnection: close\r\n\r\n`,
    )
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk
    })
    await once(socket, 'close')
    t.match(answer, /^HTTP\/1\.1 (200|400) /, query)
  }
})
