/** The deadline of a request, and callers that do not wait for it. */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { outcome, type Script, scripted } from '../../support/scripted-supplier.ts'
import { answerText, rawSupplier } from '../../support/supplier.ts'
import { callTo } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

t.test('tmax less its margin is the deadline where it is smaller', async (t) => {
  const { proxy } = await scripted(t, () => {}, { timeout: '20s', tmaxMargin: '10ms' })
  const answer = await raw(proxy.port, post('/bid/acme', '{"ext":{"tmax":9999},"tmax":30}'))
  t.equal(answer.headers['x-bidweir-reason'], 'timeout')
})

t.test('another timeout is that of the next request, and of this supplier alone', async (t) => {
  const supplier = await rawSupplier(() => {})
  const route = { endpoints: [supplier.url], timeout: '60s' }
  const proxy = await startProxy({ acme: route, twin: route })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  proxy.setSupplier('acme', { ...route, timeout: '30ms' })
  const twin = callTo(proxy.port)
  twin.write(post('/bid/twin', '{}'))
  await until(() => supplier.requests.length === 1)
  const answer = await raw(proxy.port, post('/bid/acme', '{}'))
  t.equal(answer.headers['x-bidweir-reason'], 'timeout')
  t.equal(await sample(proxy.registry, 'bidweir_requests_in_flight{ssp="twin"}'), 1)
  twin.destroy()
})

t.test('the deadline holds for a body that is still on its way', async (t) => {
  const { proxy, supplier } = await scripted(t, () => {}, { timeout: '300ms' })
  const request = post('/bid/acme', '{"a":1}')
  for (const cut of [request.length - 7, request.length - 1]) {
    const socket = callTo(proxy.port)
    socket.write(request.subarray(0, cut))
    const head = await new Promise<string>((resolve) => socket.once('data', (d) => resolve(`${d}`)))
    t.match(head, /^HTTP\/1\.1 204 .*\r\nx-bidweir-reason: timeout\r\n/)
    // The rest is skipped, and the connection serves on.
    socket.write(request.subarray(cut))
    socket.write(request)
    t.match(await new Promise((resolve) => socket.once('data', (d) => resolve(`${d}`))), /timeout/)
    socket.destroy()
  }
  t.equal(supplier.requests.length, 2)
})

for (const fastLane of [true, false])
  for (const [onFailure, status] of [
    ['no-bid', 204],
    ['status', 504],
  ] as const)
    t.test(
      `a body that its caller does not complete is slow_request, not a timeout of the supplier (${fastLane ? 'fast' : 'general'} lane, ${onFailure})`,
      async (t) => {
        const supplier = await rawSupplier(() => {})
        const route = { endpoints: [supplier.url], timeout: '300ms', onFailure }
        const proxy = await startProxy({ acme: route }, { proxy: { fastLane } })
        t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
        const answer = await raw(proxy.port, post('/bid/acme', '{"a":1}').subarray(0, -1))
        t.equal(answer.status, status)
        t.equal(answer.headers['x-bidweir-reason'], 'timeout')
        t.equal(await outcome(proxy, 'slow_request'), 1)
        t.equal(await outcome(proxy, 'timeout'), 0)
        t.equal(supplier.requests.length, 0, 'nothing is sent')
        const upstream = 'bidweir_upstream_duration_seconds_count{ssp="acme"}'
        t.equal(await sample(proxy.registry, upstream), 0)
        t.equal(await sample(proxy.registry, 'bidweir_endpoint_in_flight{ssp="acme"}'), 0)
      },
    )

t.test('a caller that goes away cancels the upstream request', async (t) => {
  let arrived = () => {}
  const there = new Promise<void>((resolve) => {
    arrived = resolve
  })
  const { proxy, supplier } = await scripted(t, () => arrived(), { timeout: '20s' })
  const socket = callTo(proxy.port)
  socket.write(post('/bid/acme', '{}'))
  await there
  socket.destroy()
  await until(() => supplier.aborted === 1)
  t.equal(await outcome(proxy, 'client_abort'), 1)
  t.equal(await sample(proxy.registry, 'bidweir_requests_in_flight{ssp="acme"}'), 0)
})

t.test(
  'timeout is the deadline where tmax is larger, at least a millisecond where it is nothing',
  async (t) => {
    const { proxy } = await scripted(t, () => {}, { timeout: '60ms', tmaxMargin: '10ms' })
    const large = await raw(proxy.port, post('/bid/acme', '{"tmax":20000}'))
    t.equal(large.headers['x-bidweir-reason'], 'timeout')
    const patient = await scripted(t, () => {}, { timeout: '20s', tmaxMargin: '10ms' })
    for (const tmax of [1, 9, 10, 11]) {
      const answer = await raw(patient.proxy.port, post('/bid/acme', `{"tmax":${tmax}}`))
      t.equal(answer.headers['x-bidweir-reason'], 'timeout', `tmax ${tmax}`)
    }
  },
)

t.test(
  'a tmax that is no positive integer is ignored, that of a gzip request is not',
  async (t) => {
    const answers: Script = (socket) => {
      setTimeout(() => socket.write(answerText('200 OK', '{}')), 40)
    }
    const { proxy } = await scripted(t, answers, { timeout: '20s', tmaxMargin: '0ms' })
    const wrong = ['0', '-5', '1.5', '"5"', 'null', 'true', '[5]', '{"tmax":5}', '1e999']
    for (const tmax of wrong)
      t.equal((await raw(proxy.port, post('/bid/acme', `{"tmax":${tmax}}`))).status, 200, tmax)
    const packed = post('/bid/acme', gzipSync('{"tmax":5}'), 'Content-Encoding: gzip\r\n')
    t.equal((await raw(proxy.port, packed)).headers['x-bidweir-reason'], 'timeout')
  },
)
