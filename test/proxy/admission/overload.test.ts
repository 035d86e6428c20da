/** An overloaded supplier: what waits, what is refused, and the cost (CONTRACT 3, overload). */
import t, { type Test } from 'tap'
import { firstLimit } from '../../../proxy/admission/limiter.ts'
import { proxySchema, routeSchema } from '../../../proxy/config.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { source } from '../../support/random.ts'
import { post, raw } from '../../support/raw.ts'
import { outcome } from '../../support/scripted-supplier.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { callTo } from '../../support/transport.ts'
import { timePasses, until } from '../../support/until.ts'

/** A supplier with `maxInFlight` places that holds each response until the test releases it. */
async function holding(t: Test, route: object) {
  const waiting: (() => void)[] = []
  const supplier = await httpSupplier((_request, response) =>
    waiting.push(() => response.end('{}')),
  )
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s', ...route } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const gauge = (name: string) => sample(proxy.registry, `bidweir_${name}{ssp="acme"}`)
  return {
    ...{ proxy, supplier, waiting, gauge },
    answerNext: () => waiting.shift()!(),
    send: (body = '{}') => raw(proxy.port, post('/bid/acme', body)),
    queued: (count: number) => until(async () => (await gauge('supplier_queued')) === count),
    sent: (count: number) => until(() => supplier.requests.length === count),
  }
}

t.test('a request past maxInFlight waits and is sent when a place is free', async (t) => {
  const { supplier, gauge, answerNext, send, queued, sent } = await holding(t, { maxInFlight: 2 })
  const first = [send(), send()]
  await sent(2)
  t.equal(await gauge('supplier_limit'), 2)
  const third = send()
  await queued(1)
  t.equal(supplier.requests.length, 2, 'not more than two at once')
  answerNext()
  await sent(3)
  t.equal(await gauge('supplier_queued'), 0)
  answerNext()
  answerNext()
  for (const answer of await Promise.all([...first, third])) t.equal(answer.status, 200)
})

t.test('past the queue a request is refused and takes no token', async (t) => {
  const { proxy, waiting, answerNext, send, queued, sent } = await holding(t, { maxInFlight: 1 })
  const allotment = { active: true, clientQps: 100 }
  proxy.proxy.setDirectory(() => ({ inactiveSeats: new Set(), allotment }), 1)
  const accepted = [send()]
  await sent(1)
  // Before its first answer a supplier has a queue of eight for each place.
  for (let nth = 1; nth <= 8; nth++) {
    accepted.push(send())
    await queued(nth)
  }
  for (let nth = 0; nth < 30; nth++) {
    const { status, headers } = await send()
    if (status !== 204 || headers['x-bidweir-reason'] !== 'overload') t.fail(`${status}`)
  }
  t.equal(await outcome(proxy, 'overload'), 30)
  for (let nth = 1; nth <= accepted.length; nth++) {
    await until(() => waiting.length > 0)
    answerNext()
  }
  for (const answer of await Promise.all(accepted)) t.equal(answer.status, 200)
  const after = send()
  await until(() => waiting.length > 0)
  answerNext()
  t.equal((await after).status, 200, 'a bucket of ten, nine taken')
})

t.test('a caller that leaves the queue leaves its place to the next one', async (t) => {
  const { proxy, supplier, answerNext, send, queued, sent } = await holding(t, { maxInFlight: 1 })
  const first = send('1')
  await sent(1)
  const leaving = callTo(proxy.port)
  leaving.write(post('/bid/acme', 'leaving'))
  await queued(1)
  const last = send('last')
  await queued(2)
  leaving.destroy()
  await queued(1)
  answerNext()
  await sent(2)
  answerNext()
  for (const answer of await Promise.all([first, last])) t.equal(answer.status, 200)
  t.same(
    supplier.requests.map(({ body }) => body),
    ['1', 'last'],
  )
  t.equal(await outcome(proxy, 'client_abort'), 1)
})

t.test(
  'a deadline that comes in the queue is overload: the supplier was never asked',
  async (t) => {
    const { proxy, supplier, answerNext, send, sent } = await holding(t, {
      ...{ maxInFlight: 1, onFailure: 'status' },
    })
    const allotment = { active: true, clientQps: 20 }
    proxy.proxy.setDirectory(() => ({ inactiveSeats: new Set(), allotment }), 1)
    const first = send()
    await sent(1)
    for (let nth = 0; nth < 5; nth++) {
      const late = await send('{"tmax":30}')
      t.match(late, { status: 503, headers: { 'x-bidweir-reason': 'overload' } })
    }
    t.equal(supplier.requests.length, 1)
    answerNext()
    t.equal((await first).status, 200)
    t.equal(await outcome(proxy, 'qps'), 0, 'the bucket of two was given its tokens back')
  },
)

t.test('a drain answers what waits in the queue', async (t) => {
  const { proxy, answerNext, send, queued, sent } = await holding(t, { maxInFlight: 1 })
  const calls = [send()]
  await sent(1)
  calls.push(send())
  await queued(1)
  proxy.proxy.drain()
  const closed = proxy.proxy.close()
  answerNext()
  await sent(2)
  answerNext()
  for (const answer of await Promise.all(calls)) t.equal(answer.status, 200)
  await closed
})

t.test('a reload that gives more places sends what waits', async (t) => {
  const route = { maxInFlight: 1 }
  const { proxy, supplier, answerNext, send, queued, sent } = await holding(t, route)
  const calls = [send()]
  await sent(1)
  calls.push(send(), send())
  await queued(2)
  const next = { endpoints: [supplier.url], timeout: '20s', maxInFlight: 3 }
  proxy.proxy.setRoute({ ...routeSchema.parse(next), id: 'acme' })
  await sent(3)
  for (const _call of calls) answerNext()
  for (const answer of await Promise.all(calls)) t.equal(answer.status, 200)
})

t.test('an aborted or failed request leaves its place to the next one', async (t) => {
  const { proxy, waiting, answerNext, send, queued, sent } = await holding(t, { maxInFlight: 1 })
  const leaving = callTo(proxy.port)
  leaving.write(post('/bid/acme', '1'))
  await sent(1)
  const second = send()
  await queued(1)
  leaving.destroy()
  await sent(2)
  waiting.shift()
  answerNext()
  t.equal((await second).status, 200)
})

t.test('maxInFlightPerSupplier bounds what waits as well', async (t) => {
  const { supplier, proxy, answerNext, send, queued, sent } = await holding(t, { maxInFlight: 1 })
  const route = { ...routeSchema.parse({ endpoints: [supplier.url], maxInFlight: 1 }), id: 'acme' }
  const config = proxySchema.parse({ listen: '127.0.0.1:0', maxInFlightPerSupplier: 2 })
  proxy.proxy.configure(config)
  proxy.proxy.setRoute({ ...route, timeout: 20_000 })
  const calls = [send()]
  await sent(1)
  calls.push(send())
  await queued(1)
  t.equal((await send()).headers['x-bidweir-reason'], 'overload')
  answerNext()
  await sent(2)
  answerNext()
  for (const answer of await Promise.all(calls)) t.equal(answer.status, 200)
})

t.test('a metric names the cause of a limit', async (t) => {
  const { proxy, gauge, answerNext, send, sent } = await holding(t, { maxInFlight: 2 })
  const call = send()
  await sent(1)
  answerNext()
  await call
  const cause = (name: string) =>
    sample(proxy.registry, `bidweir_supplier_limit_cause{ssp="acme",cause="${name}"}`)
  t.equal(await cause('fixed'), 1)
  t.equal(await gauge('supplier_unloaded_late_ratio'), 0)
})

t.test('without a limit of its own a supplier starts with `firstLimit` places', async (t) => {
  const { gauge, waiting, answerNext, send, queued, sent } = await holding(t, {})
  const calls = Array.from({ length: firstLimit + 1 }, () => send())
  await sent(firstLimit)
  await queued(1)
  t.equal(await gauge('supplier_limit'), firstLimit)
  answerNext()
  await sent(firstLimit + 1)
  for (const _answer of [...waiting]) answerNext()
  for (const answer of await Promise.all(calls)) t.equal(answer.status, 200)
})

t.test(
  'a supplier that does not answer half of its requests is still sent the others',
  async (t) => {
    const supplier = await httpSupplier(({ headers }, response) => {
      if (headers['x-late'] === '0') setTimeout(() => response.end('{}'), 200)
    })
    const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '600ms' } })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const random = source(1)
    // The first half is the time that the limiter has to find out.
    const [learning, measured] = [600, 600]
    let [begun, possible, refused] = [0, 0, 0]
    const caller = async () => {
      while (begun < learning + measured) {
        const counts = begun++ >= learning
        const late = random() < 0.5 ? '1' : '0'
        const { headers } = await raw(proxy.port, post('/bid/acme', '{}', `x-late: ${late}\r\n`))
        const isRefused = headers['x-bidweir-reason'] === 'overload'
        if (counts && late === '0') possible++
        if (counts && late === '0' && isRefused) refused++
        // The rate is that of callers who do not repeat a refused request at once.
        if (isRefused) await timePasses(400, 'a caller that is refused asks again later')
      }
    }
    await Promise.all(Array.from({ length: 40 }, caller))
    t.ok(refused < possible * 0.4, `${refused} of ${possible} refused`)
  },
)
