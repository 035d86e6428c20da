/** Endpoints that DNS names: SRV records with their ports, weights and priorities, and addresses of a server of one's own. */
import t, { type Test } from 'tap'
import { routeSchema } from '../../../proxy/config.ts'
import { type DnsTable, dnsServer, type ServedRecord } from '../../support/dns-server.ts'
import { startProxy, type TestProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier, type TestSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'

async function world(t: Test, count: number) {
  const table: DnsTable = { srv: {}, a: { 'bid.test': ['127.0.0.1'] }, broken: false }
  const server = await dnsServer(table)
  const suppliers: TestSupplier[] = []
  for (let n = 0; n < count; n++)
    suppliers.push(await httpSupplier((_request, response) => response.end('{}')))
  t.teardown(() => {
    server.close()
    return Promise.all(suppliers.map((supplier) => supplier.close()))
  })
  const record = (index: number, more: Partial<ServedRecord> = {}): ServedRecord => ({
    ...{ name: 'bid.test', port: Number(new URL(suppliers[index]!.url).port) },
    ...{ weight: 1, priority: 0, ...more },
  })
  const counts = () => suppliers.map(({ requests }) => requests.length)
  return { table, server, suppliers, record, counts }
}

const send = async (proxy: TestProxy, count: number) => {
  const statuses = new Set<number>()
  for (let n = 0; n < count; n++)
    statuses.add((await raw(proxy.port, post('/bid/acme', '{}'))).status)
  return [...statuses]
}

for (const lane of ['fast', 'general'] as const)
  t.test(`${lane} lane: SRV records become endpoints, and follow their changes`, async (t) => {
    const { table, server, suppliers, record, counts } = await world(t, 3)
    table.srv['_openrtb._tcp.acme.test'] = [
      record(0, { weight: 90 }),
      record(1, { weight: 10 }),
      record(2, { priority: 1 }),
    ]
    const proxy = await startProxy(
      {
        acme: {
          endpoints: ['http://_openrtb._tcp.acme.test/openrtb?v=1'],
          discovery: { dns: { type: 'SRV', every: '500ms', servers: [server.address] } },
        },
      },
      { lane },
    )
    t.teardown(() => proxy.close())
    const endpoints = () => proxy.proxy.suppliers.get('acme')!.endpoints.all
    await until(() => endpoints().length === 3)
    const found = endpoints().map(({ url, weight, priority }) => [weight, priority, url.hostname])
    t.same(
      found.sort(([one], [other]) => Number(one) - Number(other)),
      [
        [1, 1, 'bid.test'],
        [10, 0, 'bid.test'],
        [90, 0, 'bid.test'],
      ],
    )
    t.same(await send(proxy, 200), [200])
    const [one, two, three] = counts()
    t.ok(one! > 140 && two! > 3, `by weight: ${counts()}`)
    t.equal(three, 0, 'the second priority waits')
    t.equal(suppliers[0]!.requests[0]!.url, '/openrtb?v=1', 'with the path')
    const { connections } = suppliers[0]!

    table.srv['_openrtb._tcp.acme.test'] = [record(0, { weight: 5 }), record(2)]
    await until(() => endpoints().length === 2)
    t.same(await send(proxy, 100), [200])
    t.equal(counts()[1], two, 'a target that is gone gets nothing')
    t.ok(counts()[2]! > 0)
    t.equal(suppliers[0]!.connections, connections, 'one that stays keeps its connection')

    table.broken = true
    await until(() => proxy.logged.some((line) => /last endpoints remain in use/.test(line)))
    t.equal(endpoints().length, 2)
    t.same(await send(proxy, 20), [200])
  })

t.test('names are resolved by the servers of the supplier', async (t) => {
  const { server, suppliers } = await world(t, 1)
  const { port } = new URL(suppliers[0]!.url)
  const route = (servers: string[]) => ({
    endpoints: [`http://bid.test:${port}/bid`],
    discovery: { dns: { every: '500ms', servers } },
  })
  const proxy = await startProxy({ acme: route([server.address]) })
  t.teardown(() => proxy.close())
  t.same(await send(proxy, 5), [200])
  const before = server.asked.length
  await until(() => server.asked.length > before + 2, { what: 'asked again' })
  proxy.setSupplier('acme', { endpoints: [suppliers[0]!.url] })
  t.same(await send(proxy, 5), [200], 'without discovery')
})

t.test('the address of a DNS server is checked', (t) => {
  const faults = (server: string) =>
    routeSchema
      .safeParse({ discovery: { dns: { servers: [server] } } })
      .error?.issues.map(({ message }) => message)
  for (const server of ['10.0.0.2', '10.0.0.2:5353', '[::1]:53']) t.equal(faults(server), undefined)
  for (const server of ['dns.example', '10.0.0.999', '10.0.0.2:99999', ''])
    t.match(faults(server), [/the address of a DNS server/], server)
  t.end()
})
