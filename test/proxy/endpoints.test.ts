/** Endpoints of one supplier: the less busy of two choices, ejection for a growing time, and the way back (CONTRACT 3). */
import t from 'tap'
import { Endpoint, Endpoints } from '../../proxy/upstream/endpoints.ts'
import { createResolver } from '../../proxy/upstream/resolver.ts'
import { sample, startProxy } from '../support/proxy.ts'
import { source } from '../support/random.ts'
import { post, raw } from '../support/raw.ts'
import { answerText, httpSupplier, rawSupplier } from '../support/supplier.ts'

const resolver = createResolver({ onError() {} })
t.teardown(() => resolver.close())

function endpoints(count: number) {
  const clock = { now: 1 }
  const all = Array.from(
    { length: count },
    (_each, n) => new Endpoint(`http://127.0.0.1:${n + 1}/`, { resolver, lane: 'fast' }),
  )
  return { clock, all, of: new Endpoints(all, () => clock.now, source(1)) }
}

t.test('of two the less busy one is chosen', (t) => {
  const { all, of } = endpoints(2)
  all[0]!.inFlight = 1
  for (let n = 0; n < 100; n++) if (of.choose() !== all[1]) t.fail('the busier of both')
  all[1]!.inFlight = 1
  const counts = all.map((each) => {
    let chosen = 0
    for (let n = 0; n < 1000; n++) if (of.choose() === each) chosen++
    return chosen
  })
  t.ok(
    counts.every((count) => count > 400 && count < 600),
    `where both are as busy each gets its half: ${counts}`,
  )
  t.end()
})

t.test('of many the busiest is never chosen, all others are', (t) => {
  const { all, of } = endpoints(5)
  for (const [n, each] of all.entries()) each.inFlight = n
  const chosen = new Set<Endpoint>()
  for (let n = 0; n < 500; n++) chosen.add(of.choose())
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
    while (requests.length === before && quick.requests.length + requests.length === n)
      await new Promise((resolve) => setImmediate(resolve))
    if (requests.length > before) hanging++
    else t.equal(await answer, 200)
  }
  t.ok(hanging <= 1, `${hanging} of 40 hang`)
})

t.test('ejected after five failures in a row, twice as long each time, probed once', (t) => {
  const { clock, all, of } = endpoints(2)
  const [bad, good] = all as [Endpoint, Endpoint]
  const chosen = () => {
    const seen = new Set<Endpoint>()
    for (let n = 0; n < 50; n++) seen.add(of.choose())
    return seen
  }
  for (let n = 0; n < 4; n++) of.failed(bad)
  of.succeeded(bad)
  for (let n = 0; n < 4; n++) of.failed(bad)
  t.equal(bad.ejected, false, 'not in a row')
  of.failed(bad)
  for (const time of [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]) {
    t.equal(bad.ejected, true)
    clock.now += time - 1
    t.same([...chosen()], [good], `nothing for ${time} ms`)
    clock.now += 1
    let probes = 0
    for (let n = 0; n < 200; n++) if (of.choose() === bad) probes++
    t.equal(probes, 1, 'one probe at a time')
    of.failed(bad)
  }
  clock.now += 60_000
  while (of.choose() !== bad);
  of.succeeded(bad)
  t.equal(bad.ejected, false)
  t.equal(chosen().size, 2, 'it is back')
  for (let n = 0; n < 5; n++) of.failed(bad)
  clock.now += 1000
  t.ok(chosen().has(bad), 'and its time begins anew')
  t.end()
})

t.test('the last one that is left is never ejected', (t) => {
  const { all, of } = endpoints(3)
  for (const each of all) for (let n = 0; n < 20; n++) of.failed(each)
  t.same(
    all.map(({ ejected }) => ejected),
    [true, true, false],
  )
  t.end()
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
