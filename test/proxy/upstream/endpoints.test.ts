/** Endpoints of one supplier: the less busy of two choices, ejection for a growing time, and the way back (CONTRACT 3). */
import t from 'tap'
import { defaultOutliers } from '../../../proxy/upstream/config.ts'
import { EndpointLog } from '../../../proxy/upstream/endpoint-log.ts'
import { Endpoint, Endpoints } from '../../../proxy/upstream/endpoints.ts'
import { createResolver } from '../../../proxy/upstream/resolver.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { source } from '../../support/random.ts'
import { post, raw } from '../../support/raw.ts'
import { answerText, httpSupplier, rawSupplier } from '../../support/supplier.ts'
import { reset } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const resolver = createResolver({ onError() {} })
t.teardown(() => resolver.close())

const options = (clock: { now: number }, outliers: object) => ({
  ...{ outliers: { ...defaultOutliers, ...outliers }, timeout: 100, zone: null },
  ...{ now: () => clock.now, random: source(1) },
})

function endpoints(count: number, outliers: object = {}) {
  const clock = { now: 1 }
  const lines: object[] = []
  const write = (fields: object) => void lines.push(fields)
  const all = Array.from({ length: count }, (_each, n) => {
    const url = `http://127.0.0.1:${n + 1}/bid`
    const log = new EndpointLog({ info: write, warn: write, error: write }, 'acme', url)
    return new Endpoint({ url, weight: 1, priority: 0 }, { resolver, lane: 'fast' }, log)
  })
  return { clock, lines, all, table: new Endpoints(all, options(clock, outliers)) }
}

t.test('of two endpoints the less busy one is chosen', (t) => {
  const { all, table } = endpoints(2)
  all[0]!.inFlight = 1
  for (let n = 0; n < 100; n++) if (table.choose() !== all[1]) t.fail('the busier of both')
  all[1]!.inFlight = 1
  const counts = all.map((endpoint) => {
    let chosen = 0
    for (let n = 0; n < 1000; n++) if (table.choose() === endpoint) chosen++
    return chosen
  })
  t.ok(
    counts.every((count) => count > 400 && count < 600),
    `where both are as busy each gets its half: ${counts}`,
  )
  t.end()
})

t.test('of many the busiest is never chosen, all others are', (t) => {
  const { all, table } = endpoints(5)
  for (const [n, endpoint] of all.entries()) endpoint.inFlight = n
  const chosen = new Set<Endpoint>()
  for (let n = 0; n < 500; n++) chosen.add(table.choose())
  t.same([...chosen].map(({ inFlight }) => inFlight).sort(), [0, 1, 2, 3])
  t.end()
})

t.test('an endpoint that hangs gets no requests beside one that answers', async (t) => {
  const slow = await rawSupplier(() => {})
  const quick = await httpSupplier((_request, response) => response.end('{}'))
  const route = { endpoints: [slow.url, quick.url], timeout: '20s' }
  const proxy = await startProxy({ acme: route })
  t.teardown(() => Promise.all([proxy.close(), slow.close(), quick.close()]))
  let hanging = 0
  for (let n = 0; n < 40; n++) {
    const { requests } = slow
    const before = requests.length
    const answer = raw(proxy.port, post('/bid/acme', '{}')).then(({ status }) => status)
    answer.catch(() => 0)
    await until(() => quick.requests.length + requests.length > n)
    if (requests.length > before) hanging++
    else t.equal(await answer, 200)
  }
  t.ok(hanging <= 1, `${hanging} of 40 hang`)
})

t.test('ejected after five failures in a row, twice as long each time, probed once', (t) => {
  const { clock, all, table } = endpoints(2)
  const [bad, good] = all as [Endpoint, Endpoint]
  const chosen = () => {
    const seen = new Set<Endpoint>()
    for (let n = 0; n < 50; n++) seen.add(table.choose())
    return seen
  }
  for (let n = 0; n < 4; n++) table.failed(bad, 'timeout')
  table.succeeded(bad)
  for (let n = 0; n < 4; n++) table.failed(bad, 'timeout')
  t.equal(bad.ejected, false, 'not in a row')
  table.failed(bad, 'timeout')
  for (const time of [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]) {
    t.equal(bad.ejected, true)
    clock.now += time - 1
    t.same([...chosen()], [good], `nothing for ${time} ms`)
    clock.now += 1
    let probes = 0
    for (let n = 0; n < 200; n++) if (table.choose() === bad) probes++
    t.equal(probes, 1, 'one probe at a time')
    table.failed(bad, 'timeout')
  }
  clock.now += 60_000
  t.ok(chosen().has(bad), 'probed again')
  table.succeeded(bad)
  t.equal(bad.ejected, false)
  t.equal(chosen().size, 2, 'it is back')
  for (let n = 0; n < 5; n++) table.failed(bad, 'timeout')
  clock.now += 1000
  t.ok(chosen().has(bad), 'and its time begins anew')
  t.end()
})

t.test('the last endpoint is never ejected', (t) => {
  const { all, table } = endpoints(3)
  for (const endpoint of all) for (let n = 0; n < 20; n++) table.failed(endpoint, 'timeout')
  t.same(
    all.map(({ ejected }) => ejected),
    [true, true, false],
  )
  t.end()
})

t.test('at most a share of the endpoints is ejected, rounded up', (t) => {
  const ejected = (count: number, maxEjectedShare: number) => {
    const { all, table } = endpoints(count, { maxEjectedShare, consecutive: 1 })
    for (const endpoint of all) table.failed(endpoint, 'timeout')
    return all.filter((endpoint) => endpoint.ejected).length
  }
  t.same(
    [2, 3, 4, 5, 10].map((count) => ejected(count, 0.5)),
    [1, 2, 2, 3, 5],
  )
  t.equal(ejected(10, 0.11), 2)
  t.equal(ejected(4, 0), 0, 'none')
  t.equal(ejected(4, 1), 3, 'all but the last')
  t.end()
})

t.test('an endpoint is ejected for its share of failures once there are enough requests', (t) => {
  const { clock, all, table } = endpoints(3, { errorShare: 0.2, minRequests: 20 })
  const [bad] = all as [Endpoint]
  const rounds = (count: number) => {
    for (let n = 0; n < count && !bad.ejected; n++)
      if (n % 3 === 0) table.failed(bad, 503)
      else table.succeeded(bad)
  }
  rounds(19)
  t.equal(bad.ejected, false, 'a third of too few')
  clock.now += 10_001
  rounds(19)
  t.equal(bad.ejected, false, 'the requests before do not count')
  rounds(3)
  t.equal(bad.ejected, true)
  clock.now += 1000
  t.equal(table.choose(), bad, 'probed')
  table.succeeded(bad)
  rounds(18)
  t.equal(bad.ejected, false, 'counted anew')
  for (let n = 0; n < 60; n++) {
    if (n % 6 === 0) table.failed(all[1]!, 503)
    else table.succeeded(all[1]!, 1)
  }
  t.equal(all[1]!.ejected, false, 'a sixth is less than a fifth')
  t.end()
})

t.test('an endpoint is ejected for its mean response time', (t) => {
  const { clock, all, lines, table } = endpoints(2, { latencyShare: 0.5, minRequests: 10 })
  const [slow, quick] = all as [Endpoint, Endpoint]
  for (let n = 0; n < 100; n++) table.succeeded(quick, 49)
  for (let n = 0; n < 9; n++) table.succeeded(slow, 80)
  t.same([slow.ejected, quick.ejected], [false, false])
  table.succeeded(slow, 80)
  t.equal(slow.ejected, true, 'of a timeout of 100 ms')
  t.match(lines, [{ state: 'ejected', reason: 'slow' }])
  for (let n = 0; n < 100; n++) table.succeeded(quick, 80)
  t.equal(quick.ejected, false, 'the last one')
  clock.now += 1000
  t.equal(table.choose(), slow)
  table.succeeded(slow, 10)
  t.equal(slow.state, 'up')
  t.end()
})

t.test('each change of a state is logged once, with its reason', (t) => {
  const { clock, lines, all, table } = endpoints(2)
  const [bad] = all as [Endpoint]
  const labels = { ssp: 'acme', endpoint: 'http://127.0.0.1:1/bid' }
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  for (let n = 0; n < 50; n++) table.failed(bad, n === 0 ? refused : 503)
  t.same(lines, [
    { ...labels, state: 'failing', reason: 'refused', err: 'connect ECONNREFUSED' },
    { ...labels, state: 'ejected', reason: 'status', status: 503 },
  ])
  t.equal(bad.state, 'ejected')
  clock.now += 1000
  table.succeeded(bad)
  table.succeeded(bad)
  t.same(lines.slice(2), [{ ...labels, state: 'up' }])
  t.equal(bad.state, 'up')
  t.end()
})

t.test('an endpoint that comes and goes is logged ever more seldom', (t) => {
  const { clock, lines, all, table } = endpoints(1)
  for (let n = 0; n < 1000; n++) {
    clock.now += 100
    if (n % 2 === 0) table.failed(all[0]!, 'timeout')
    else table.succeeded(all[0]!)
  }
  t.equal(lines.length, 8, 'in 100 s: after 0, 10, 30 and 70 s')
  clock.now += 700_000
  table.failed(all[0]!, 'timeout')
  t.match(lines.at(-1), { state: 'failing' }, 'a failure that stays is logged in the end')
  table.succeeded(all[0]!)
  clock.now += 10_000
  table.failed(all[0]!, 'timeout')
  t.equal(lines.length, 11, 'after a long silence at once, as in the beginning')
  t.end()
})

t.test('an ejection is logged although failures are not any more', (t) => {
  const { clock, lines, all, table } = endpoints(2)
  const fail = (count: number) => {
    for (let n = 0; n < count; n++) table.failed(all[0]!, 'timeout')
  }
  fail(1)
  table.succeeded(all[0]!)
  fail(1)
  t.match(lines, [{ state: 'failing' }, { state: 'up' }], 'failures are not logged for a while')
  fail(4)
  t.match(lines.slice(2), [{ state: 'ejected', reason: 'timeout' }])
  clock.now += 1000
  table.succeeded(table.choose())
  fail(5)
  t.match(lines.slice(3), [{ state: 'up' }], 'nor then is a second ejection')
  t.end()
})

t.test('checks that succeed again end an ejection', (t) => {
  const { lines, all, table } = endpoints(2)
  for (let n = 0; n < 5; n++) table.failed(all[0]!, 'timeout')
  table.setHealth(all[0]!, 'status 503')
  table.setHealth(all[0]!, null)
  t.equal(all[0]!.state, 'up')
  t.match(lines.at(-1), { state: 'up', reason: 'health_check' })
  const chosen = new Set(Array.from({ length: 100 }, () => table.choose()))
  t.ok(chosen.has(all[0]!), 'it gets requests at once')
  t.end()
})

t.test(
  'the only endpoint of a supplier that fails is shown and logged, and so is its return',
  async (t) => {
    let mode: 'reset' | 'status' | 'silent' | 'good' = 'reset'
    const supplier = await rawSupplier((socket) => {
      if (mode === 'reset') reset(socket)
      else if (mode === 'status') socket.write(answerText('502 No', ''))
      else if (mode === 'good') socket.write(answerText('200 OK', '{}'))
    })
    t.teardown(() => supplier.close())
    const { url } = supplier
    const up = `bidweir_endpoint_up{ssp="acme",endpoint="${url}"}`
    for (const [failing, fields, timeout] of [
      ['reset', { reason: 'reset' }, '20s'],
      ['status', { reason: 'status', status: 502 }, '20s'],
      ['silent', { reason: 'timeout' }, '30ms'],
    ] as const) {
      mode = failing
      const proxy = await startProxy({ acme: { endpoints: [url], timeout } })
      t.teardown(() => proxy.close())
      const send = () => raw(proxy.port, post('/bid/acme?user=secret', '{}'))
      const endpoint = () => proxy.proxy.suppliers.get('acme')!.endpoints.all[0]!
      t.equal(await sample(proxy.registry, up), 1)
      for (let n = 0; n < 7; n++) await send()
      t.match(proxy.lines, [{ ssp: 'acme', endpoint: url, state: 'failing', ...fields }], failing)
      t.equal(proxy.lines.length, 1, 'once')
      t.equal(await sample(proxy.registry, up), 0)
      t.equal(endpoint().state, 'failing')
      t.ok(endpoint().failures >= 7)
      mode = 'good'
      await until(async () => (await send()).status === 200)
      t.match(proxy.lines.slice(1), [{ ssp: 'acme', endpoint: url, state: 'up' }])
      t.equal(await sample(proxy.registry, up), 1)
      t.notMatch(JSON.stringify(proxy.lines), /secret/)
    }
  },
)

t.test('an endpoint that refuses connections is failing', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.end('{}'))
  await supplier.close()
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
  t.teardown(() => proxy.close())
  for (let n = 0; n < 3; n++)
    t.match(await raw(proxy.port, post('/bid/acme', '{}')), {
      headers: { 'x-bidweir-reason': 'upstream_error' },
    })
  t.match(proxy.lines, [{ ssp: 'acme', state: 'failing', reason: 'refused' }])
  t.equal(proxy.lines.length, 1)
})

t.test('a connection that the supplier closed while it was idle is no failure', async (t) => {
  const supplier = await rawSupplier((socket, _request, nth) => {
    if (nth > 1) reset(socket)
    else socket.write(answerText('200 OK', '{}'))
  })
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  for (let n = 0; n < 5; n++) t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 200)
  t.same(proxy.lines, [])
})

t.test('5xx answers are passed on and eject, 4xx do not', async (t) => {
  let status = ''
  const failing = await rawSupplier((socket) => socket.write(answerText(status, '')))
  const good = await httpSupplier((_request, response) => response.end('{}'))
  t.teardown(() => Promise.all([failing.close(), good.close()]))
  for (const [name, ejects] of [
    ['404 Not Found', false],
    ['503 No', true],
  ] as const) {
    status = name
    const proxy = await startProxy({
      acme: { endpoints: [failing.url, good.url], timeout: '20s' },
    })
    t.teardown(() => proxy.close())
    const seen = new Set<number>()
    for (let n = 0; n < 60; n++) seen.add((await raw(proxy.port, post('/bid/acme', '{}'))).status)
    t.same([...seen].sort(), [200, Number(name.slice(0, 3))], 'as it is')
    const up = `bidweir_endpoint_up{ssp="acme",endpoint="${failing.url}"}`
    t.equal(await sample(proxy.registry, up), ejects ? 0 : 1, name)
  }
})
