/** The choice of an endpoint by weight, priority and zone. */
import t from 'tap'
import { EndpointTable } from '../../../proxy/upstream/endpoint-table.ts'
import { startProxy } from '../../support/proxy.ts'
import { source } from '../../support/random.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'

const endpoint = (name: string, more: object = {}) => ({
  ...{ name, weight: 1, zone: undefined, priority: 0, inFlight: 0, available: true, usable: true },
  ...more,
})
type Row = ReturnType<typeof endpoint>

/** Shares of 20,000 requests that end at once, by name. */
function shares(all: Row[], zone: string | null = null): Record<string, number> {
  const random = source(7)
  const table = new EndpointTable(all, zone)
  const counts = Object.fromEntries(all.map(({ name }) => [name, 0]))
  for (let n = 0; n < 20_000; n++) counts[table.choose(random).name]!++
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count / 20_000]))
}

const near = (found: Record<string, number>, wanted: Record<string, number>) =>
  Object.entries(wanted).every(([name, share]) => Math.abs(found[name]! - share) < 0.02)

for (const weights of [
  [1, 1],
  [3, 1],
  [1, 2, 3],
  [256, 1, 1, 1],
  [5, 5, 1, 9, 2, 100, 7],
])
  t.test(`endpoints of the weights ${weights} get their shares of the requests`, (t) => {
    const all = weights.map((weight, n) => endpoint(`${n}`, { weight }))
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    const wanted = Object.fromEntries(weights.map((weight, n) => [n, weight / total]))
    const found = shares(all)
    t.ok(near(found, wanted), JSON.stringify(found))
    t.end()
  })

t.test('requests in flight count in proportion to the weight', (t) => {
  const heavy = endpoint('heavy', { weight: 3, inFlight: 5 })
  const light = endpoint('light', { inFlight: 2 })
  t.equal(shares([heavy, light])['heavy'], 1, '5 of weight 3 are less than 2 of weight 1')
  heavy.inFlight = 7
  t.equal(shares([heavy, light])['heavy'], 0)
  t.end()
})

t.test('the second priority is used while less than half of the first is available', (t) => {
  const first = [1, 2, 3, 4].map((n) => endpoint(`a${n}`))
  const second = [1, 2].map((n) => endpoint(`b${n}`, { priority: 1 }))
  const used = () =>
    Object.entries(shares([...second, ...first]))
      .filter(([, share]) => share > 0)
      .map(([name]) => name)
      .sort()
  t.same(used(), ['a1', 'a2', 'a3', 'a4'])
  for (const endpoint of first.slice(0, 2)) endpoint.available = false
  t.same(used(), ['a3', 'a4'], 'half of them are enough')
  first[2]!.available = false
  t.same(used(), ['b1', 'b2'])
  second[0]!.available = false
  t.same(used(), ['b2'])
  t.end()
})

t.test('if too few endpoints of every priority are available, all are used', (t) => {
  const all = [1, 2, 3].map((n) => endpoint(`${n}`, { available: n === 1, usable: n < 3 }))
  const table = new EndpointTable(all, null)
  t.equal(table.panicking, true)
  const { 1: one, 2: two, 3: three } = shares(all)
  t.ok(one! > 0.4 && two! > 0.4, 'the one that failed its health checks gets requests')
  t.equal(three, 0, 'the one that failed requests gets none')
  for (const endpoint of all) endpoint.usable = false
  t.ok(near(shares(all), { 1: 1 / 3, 2: 1 / 3, 3: 1 / 3 }), 'the last resort is all')
  t.end()
})

t.test('a zone keeps its requests while it has its part of the weights', (t) => {
  const all = ['a', 'b', 'c'].flatMap((zone) => [1, 2].map((n) => endpoint(zone + n, { zone })))
  t.ok(near(shares(all, 'a'), { a1: 0.5, a2: 0.5 }))
  t.ok(near(shares(all), { a1: 1 / 6, c2: 1 / 6 }), 'a node without a zone uses all')
  t.ok(near(shares(all, 'elsewhere'), { a1: 1 / 6, c2: 1 / 6 }), 'so does one of another zone')
  all[0]!.available = false
  // One of the remaining five has a fifth of the weights, and the zone has a third of the nodes.
  t.ok(near(shares(all, 'a'), { a1: 0, a2: 0.6, b1: 0.1, c2: 0.1 }), 'a part goes elsewhere')
  t.ok(near(shares(all, 'b'), { b1: 0.5, b2: 0.5 }), 'the others keep theirs')
  all[1]!.available = false
  t.ok(near(shares(all, 'a'), { b1: 0.25, c2: 0.25 }), 'nothing is left in the zone')
  t.end()
})

t.test('a replay goes to the least loaded of the others', (t) => {
  const all = [4, 3, 2, 1].map((inFlight, n) => endpoint(`${n}`, { inFlight }))
  const table = new EndpointTable(all, null)
  t.equal(table.other(all[3]!)?.name, '2')
  t.equal(table.other(all[0]!)?.name, '3')
  t.equal(new EndpointTable(all.slice(0, 1), null).other(all[0]!), undefined)
  t.end()
})

for (const lane of ['fast', 'general'] as const)
  t.test(
    `${lane} lane: an endpoint that stays keeps its connection when its weight changes`,
    async (t) => {
      const [one, two] = [
        await httpSupplier((_request, response) => response.end('{}')),
        await httpSupplier((_request, response) => response.end('{}')),
      ]
      const route = (weight: number, priority: number) => ({
        endpoints: [one.url, { url: two.url, weight, priority }],
      })
      const proxy = await startProxy({ acme: route(100, 0) }, { lane })
      t.teardown(() => Promise.all([proxy.close(), one.close(), two.close()]))
      const send = async (count: number) => {
        for (let n = 0; n < count; n++)
          t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 200)
      }
      await send(100)
      t.ok(two.requests.length > 90, `${two.requests.length} of 100 by weight`)
      const before = two.requests.length
      proxy.setSupplier('acme', route(100, 1))
      await send(20)
      t.equal(two.requests.length, before, 'the first priority has all')
      proxy.setSupplier('acme', route(100, 0))
      await send(50)
      t.equal(two.connections, 1, 'on the same connection')
    },
  )
