/** Data centers, allotments, seats, overload: refused at once and counted; other requests are served. */
import { mock } from 'node:test'
import t from 'tap'
import type { ResponseToRewrite, RewrittenResponse } from '../../../opd/types.ts'
import { bucketOf } from '../../../proxy/admission/allotment.ts'
import { LoopLag } from '../../../proxy/admission/overload.ts'
import { idleEngine, sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { answerText, httpSupplier, rawSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'

const none = new Set<string>()

t.test(
  'an inactive data center and one over its allotment answer 204 with the reason',
  async (t) => {
    const supplier = await httpSupplier((_request, response) => response.end('{}'))
    const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const send = () => raw(proxy.port, post('/bid/acme', '{}'))
    proxy.proxy.setDirectory(
      () => ({ inactiveSeats: none, allotment: { active: false, clientQps: null } }),
      1,
    )
    t.equal((await send()).headers['x-bidweir-reason'], 'inactive')
    proxy.proxy.setDirectory(
      () => ({ inactiveSeats: none, allotment: { active: true, clientQps: 0 } }),
      1,
    )
    t.equal((await send()).headers['x-bidweir-reason'], 'qps')
    proxy.proxy.setDirectory(
      () => ({ inactiveSeats: none, allotment: { active: true, clientQps: 1 } }),
      1,
    )
    t.same(
      [(await send()).status, (await send()).status],
      [200, 200],
      'the bucket is at least 2 deep',
    )
    t.equal((await send()).headers['x-bidweir-reason'], 'qps')
    proxy.proxy.setDirectory(() => undefined, 1)
    t.equal((await send()).status, 200, 'a location that is not listed is active and unlimited')
    t.equal(await sample(proxy.registry, 'bidweir_requests_total{ssp="acme",outcome="qps"}'), 2)
  },
)

t.test('a bucket is max(2, .1 s of the allotment) deep, one of nothing holds nothing', (t) => {
  for (const [perSecond, depth] of [
    [0, 0],
    [1, 2],
    [19, 2],
    [20, 2],
    [30, 3],
    [1000, 100],
  ] as const) {
    const bucket = bucketOf(perSecond, 0)
    for (const start of [0, 3_600_000]) {
      let taken = 0
      while (bucket.takeToken(start)) taken++
      t.equal(taken, depth, `${perSecond}/s at ${start} ms`)
    }
  }
  t.end()
})

t.test(
  'what a data center or its seats refuse is a no-bid, also where failures are a status',
  async (t) => {
    const supplier = await httpSupplier((_request, response) => response.end('no JSON'))
    const engine = idleEngine({
      rewrite: ({ body }) => ({ body, reason: null, removed: 0, left: 0, unreadable: true }),
    })
    const route = { endpoints: [supplier.url], onFailure: 'status' }
    const proxy = await startProxy({ acme: route }, { engine })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const off = { active: false, clientQps: null }
    for (const [reason, admitted] of [
      ['inactive', { inactiveSeats: none, allotment: off }],
      ['inactive', { inactiveSeats: none, allSeatsInactive: true, allotment: undefined }],
      ['qps', { inactiveSeats: none, allotment: { active: true, clientQps: 0 } }],
      ['unreadable', { inactiveSeats: new Set(['s']), allotment: undefined }],
    ] as const) {
      proxy.proxy.setDirectory(() => admitted, 1)
      const answer = await raw(proxy.port, post('/bid/acme', '{}'))
      t.match(answer, { status: 204, body: '', headers: { 'x-bidweir-reason': reason } })
    }
    t.equal(supplier.requests.length, 1, 'what is not admitted is not sent')
  },
)

t.test('a bucket holds its allotment within 1 % over 10 s under three times the load', (t) => {
  for (const perSecond of [10, 100, 1000, 12_345]) {
    const bucket = bucketOf(perSecond, 0)
    let taken = 0
    const gap = 1000 / (3 * perSecond)
    for (let time = 0; time < 10_000; time += gap) if (bucket.takeToken(time)) taken++
    const off = Math.abs(taken - 10 * perSecond) / (10 * perSecond)
    t.ok(off <= Math.max(0.0101, 2 / (10 * perSecond)), `${perSecond}/s: ${taken} in 10 s`)
  }
  t.end()
})

t.test('an answer with bids of an inactive seat that cannot be read is unreadable', async (t) => {
  const bodies: Record<string, [string, string]> = {
    unknown: ['{}', 'Content-Encoding: zstd\r\n'],
    broken: ['not gzip', 'Content-Encoding: gzip\r\n'],
    long: [`"${'x'.repeat(70_000)}"`, ''],
  }
  const supplier = await rawSupplier((socket, request) => {
    const [body, headers] = bodies[/\?(\w+)/.exec(request)![1]!]!
    socket.write(answerText('200 OK', body, headers))
  })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { proxy: { maxRewriteBytes: '64KiB' } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  for (const which of Object.keys(bodies))
    t.equal((await raw(proxy.port, post(`/bid/acme?${which}`, '{}'))).status, 200)
  proxy.proxy.setDirectory(() => ({ inactiveSeats: new Set(['s']), allotment: undefined }), 1)
  for (const which of Object.keys(bodies)) {
    const answer = await raw(proxy.port, post(`/bid/acme?${which}`, '{}'))
    t.equal(answer.status, 204)
    t.equal(answer.headers['x-bidweir-reason'], 'unreadable')
  }
  const inFlight = `bidweir_endpoint_in_flight{ssp="acme",endpoint="${supplier.url}"}`
  t.match(await proxy.registry.metrics(), `${inFlight} 0`, 'nothing is left in flight')
})

t.test('an answer left without a bid is 204 inactive', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.end('{"seatbid":[]}'))
  const engine = idleEngine({
    rewrite: () => ({
      body: Buffer.from('{}'),
      reason: null,
      removed: 2,
      left: 0,
      unreadable: false,
    }),
  })
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } }, { engine })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  proxy.proxy.setDirectory(() => ({ inactiveSeats: new Set(['s']), allotment: undefined }), 1)
  const answer = await raw(proxy.port, post('/bid/acme', '{}'))
  t.equal(answer.status, 204)
  t.equal(answer.headers['x-bidweir-reason'], 'inactive')
})

t.test(
  'past its bound of requests in flight a supplier gets overload, the accepted ones their answer',
  async (t) => {
    const waiting: (() => void)[] = []
    const supplier = await httpSupplier((_request, response) =>
      waiting.push(() => response.end('{}')),
    )
    const proxy = await startProxy(
      { acme: { endpoints: [supplier.url], timeout: '20s', onFailure: 'status' } },
      { proxy: { maxInFlightPerSupplier: 2 } },
    )
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const accepted = [
      raw(proxy.port, post('/bid/acme', '1')),
      raw(proxy.port, post('/bid/acme', '2')),
    ]
    await until(() => waiting.length === 2)
    const third = await raw(proxy.port, post('/bid/acme', '3'))
    t.equal(third.status, 503)
    t.equal(third.headers['x-bidweir-reason'], 'overload')
    for (const answer of waiting) answer()
    for (const answer of await Promise.all(accepted)) t.equal(answer.status, 200)
  },
)

t.test('the loop is overloaded when it never catches up, not when it pauses once', (t) => {
  let now = 0
  let idle = 0
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const lag = new LoopLag(
    () => {},
    { tick: 1, window: 100, target: 40 },
    () => now,
    () => idle,
  )
  t.teardown(() => lag.close())
  const pass = (step: number, turns: number) => {
    for (let turn = 0; turn < turns; turn++) {
      now += step
      mock.timers.tick(1)
    }
  }
  pass(1, 20)
  pass(300, 1)
  pass(1, 120)
  t.notOk(lag.overloaded)
  pass(300, 2)
  pass(1, 120)
  t.notOk(lag.overloaded, 'nor twice')
  pass(60, 20)
  t.ok(lag.overloaded)
  for (let turn = 0; turn < 20; turn++) {
    idle += 30
    pass(60, 1)
  }
  t.notOk(lag.overloaded, 'nor when it waits for work, and other processes have its CPU')
  pass(60, 20)
  t.ok(lag.overloaded)
  t.end()
})

t.test('bids of an inactive seat are cut whatever success the supplier calls them', async (t) => {
  let status = ''
  const supplier = await rawSupplier((socket) =>
    socket.write(answerText(status, '{"seatbid":[{"seat":"s","bid":[{"id":"1"}]}]}')),
  )
  const seatsOnly: (boolean | undefined)[] = []
  const rewriting = (answer: ResponseToRewrite): RewrittenResponse => {
    seatsOnly.push(answer.seatsOnly)
    return { body: answer.body, reason: null, removed: 1, left: 0, unreadable: false }
  }
  const engine = idleEngine({ rewrite: rewriting, readsResponses: () => true })
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } }, { engine })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  proxy.proxy.setDirectory(() => ({ inactiveSeats: new Set(['s']), allotment: undefined }), 1)
  for (status of ['200 OK', '201 Created', '203 Non-Authoritative']) {
    const answer = await raw(proxy.port, post('/bid/acme', '{}'))
    t.equal(answer.headers['x-bidweir-reason'], 'inactive', status)
  }
  t.same(seatsOnly, [false, true, true], 'prices are those of a 200 alone')
  status = '500 No'
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 500)
})
