/** Active health checks: what they send, when an endpoint is out and back, and what they never do. */
import t, { type Test } from 'tap'
import type { Endpoint } from '../../../proxy/upstream/endpoints.ts'
import { HealthChecks } from '../../../proxy/upstream/health-checks.ts'
import { sample, startProxy, type TestProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier, rawSupplier } from '../../support/supplier.ts'
import { timePasses, until } from '../../support/until.ts'

const fast = { interval: '500ms', timeout: '250ms', healthyAfter: 2, unhealthyAfter: 2 }

/** An endpoint whose checks have the status of `health`. Bids are always answered with 200. */
async function checked(t: Test) {
  const state = { health: 200, silent: false, checks: 0, bids: 0 }
  const supplier = await httpSupplier((request, response) => {
    if (request.headers['user-agent'] !== 'bidweir-health-check') {
      state.bids++
      return void response.end('{}')
    }
    state.checks++
    if (!state.silent) response.writeHead(state.health).end()
  })
  t.teardown(() => supplier.close())
  return Object.assign(state, { supplier, url: supplier.url })
}

const stateOf = (proxy: TestProxy, index: number) =>
  proxy.proxy.suppliers.get('acme')!.endpoints.all[index]!.state

const send = async (proxy: TestProxy, count: number) => {
  const statuses = new Set<number>()
  for (let n = 0; n < count; n++)
    statuses.add((await raw(proxy.port, post('/bid/acme', '{}'))).status)
  return [...statuses]
}

t.test('without checks, only an endpoint that failed earlier ones changes its state', (t) => {
  const [healthy, failed] = [{ unhealthy: null }, { unhealthy: 'status 503' }] as Endpoint[]
  const changed: unknown[] = []
  const checks = new HealthChecks({ checks: 0, failedChecks: 0 }, (endpoint, fault) => {
    changed.push([endpoint, fault])
  })
  checks.configure([healthy!, failed!], undefined, null)
  // Each change is sent to all processes of the node: thousands of suppliers send none at a start.
  t.strictSame(changed, [[failed, null]])
  t.end()
})

for (const lane of ['fast', 'general'] as const) {
  t.test(
    `${lane} lane: an endpoint that fails its checks gets no bids until it passes`,
    async (t) => {
      const [one, two] = [await checked(t), await checked(t)]
      const proxy = await startProxy(
        {
          acme: {
            endpoints: [one.url, two.url],
            headers: { secretFrom: { 'x-key': 's3cret' } },
            healthCheck: { path: '/health?deep=1', ...fast },
          },
        },
        { lane },
      )
      t.teardown(() => proxy.close())
      await until(() => one.checks >= 2 && two.checks >= 2)
      const [check] = one.supplier.requests
      t.match(check, { url: '/health?deep=1', body: '' })
      t.ok(check!.headers.includes('s3cret'), 'with the headers of the supplier')
      one.health = 503
      await until(() => stateOf(proxy, 0) === 'unhealthy')
      const before = one.bids
      t.same(await send(proxy, 20), [200])
      t.equal(one.bids, before)
      t.match(proxy.lines.at(-1), { state: 'unhealthy', reason: 'health_check', err: 'status 503' })
      const up = `bidweir_endpoint_up{ssp="acme",endpoint="${one.url}"}`
      t.equal(await sample(proxy.registry, up), 0)
      t.ok(
        (await sample(proxy.registry, 'bidweir_health_checks_total{ssp="acme",result="failed"}')) >=
          2,
      )
      one.health = 204
      await until(() => stateOf(proxy, 0) === 'up')
      await send(proxy, 40)
      t.ok(one.bids > before, 'it is back')
      t.match(proxy.lines.at(-1), { state: 'up', reason: 'health_check' })
      t.equal(await sample(proxy.registry, up), 1)
    },
  )

  t.test(`${lane} lane: a check that gets no response in time has failed`, async (t) => {
    const [one, two] = [await checked(t), await checked(t)]
    one.silent = true
    const proxy = await startProxy(
      { acme: { endpoints: [one.url, two.url], healthCheck: fast } },
      { lane },
    )
    t.teardown(() => proxy.close())
    await until(() => stateOf(proxy, 0) === 'unhealthy')
    t.match(proxy.lines, [{ err: 'no response within 250 ms' }])
    t.equal(proxy.proxy.suppliers.get('acme')!.endpoints.all[0]!.pool.open, 0, 'cancelled')
    t.equal(one.supplier.requests[0]!.url, '/openrtb', 'the path of the endpoint')
  })

  t.test(`${lane} lane: a bid request may be the body of a check`, async (t) => {
    const one = await checked(t)
    const body = { id: 'check', imp: [{ id: '1' }], test: 1, site: { name: 'Köln' } }
    const proxy = await startProxy(
      {
        acme: { endpoints: [one.url], healthCheck: { ...fast, body, statuses: [200, '204-299'] } },
      },
      { lane },
    )
    t.teardown(() => proxy.close())
    await until(() => one.checks > 0)
    const [check] = one.supplier.requests
    t.same(JSON.parse(check!.body), body)
    t.ok(check!.headers.includes('application/json'))
    one.health = 203
    await until(() => stateOf(proxy, 0) === 'unhealthy')
    t.same(await send(proxy, 3), [200], 'the only endpoint gets bids whatever its checks say')
  })
}

t.test('a check that fails now and then changes nothing', async (t) => {
  const one = await checked(t)
  const other = await checked(t)
  const proxy = await startProxy({ acme: { endpoints: [one.url, other.url], healthCheck: fast } })
  t.teardown(() => proxy.close())
  await until(() => one.checks >= 1)
  for (let n = 0; n < 3; n++) {
    const seen = one.checks
    one.health = 500
    await until(() => one.checks > seen)
    one.health = 200
    await until(() => one.checks > seen + 1)
  }
  t.equal(stateOf(proxy, 0), 'up')
  t.same(proxy.lines, [])
})

t.test('while all fail their checks, all get bids', async (t) => {
  const all = [await checked(t), await checked(t), await checked(t)]
  for (const endpoint of all) endpoint.health = 500
  const endpoints = all.map(({ url }) => url)
  const proxy = await startProxy({ acme: { endpoints, healthCheck: fast } })
  t.teardown(() => proxy.close())
  await until(() => [0, 1, 2].every((index) => stateOf(proxy, index) === 'unhealthy'))
  t.same(await send(proxy, 60), [200])
  t.ok(all.every(({ bids }) => bids > 0))
  t.equal(await sample(proxy.registry, 'bidweir_endpoints_panic{ssp="acme"}'), 1)
})

t.test('a reload without checks ends them, and the endpoint is used again', async (t) => {
  const [one, two] = [await checked(t), await checked(t)]
  const endpoints = [one.url, two.url]
  const proxy = await startProxy({ acme: { endpoints, healthCheck: fast } })
  t.teardown(() => proxy.close())
  one.health = 500
  await until(() => stateOf(proxy, 0) === 'unhealthy')
  proxy.setSupplier('acme', { endpoints, healthCheck: { ...fast, path: '/other' } })
  t.equal(stateOf(proxy, 0), 'unhealthy', 'another check does not forget')
  await until(() => one.supplier.requests.at(-1)!.url === '/other')
  proxy.setSupplier('acme', { endpoints })
  t.equal(stateOf(proxy, 0), 'up')
  const seen = one.checks
  await timePasses(1200, 'two intervals in which no check must come')
  t.ok(one.checks <= seen + 1)
})

t.test('an idle connection that the endpoint has closed is no failed check', async (t) => {
  const supplier = await rawSupplier((socket, _request) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    setTimeout(() => socket.destroy(), 5)
  })
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], healthCheck: { ...fast, unhealthyAfter: 1 } },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  await until(() => supplier.requests.length >= 4)
  t.same(proxy.lines, [])
})
