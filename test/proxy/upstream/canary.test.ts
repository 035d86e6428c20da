/** A canary: a stable share of the auctions goes to other endpoints, and metrics compare both. */
import t from 'tap'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'

for (const lane of ['fast', 'general'] as const)
  t.test(
    `${lane} lane: an auction goes to the canary or not, on every node the same`,
    async (t) => {
      const answer = (prices: number[]) =>
        JSON.stringify({
          seatbid: [{ bid: prices.map((price) => ({ id: 'b', impid: '1', price })) }],
        })
      const main = await httpSupplier((_request, response) => response.end(answer([1.5])))
      const canary = await httpSupplier((_request, response) => response.end(answer([2, 0.25])))
      const route = {
        endpoints: [main.url],
        canary: { endpoints: [{ url: canary.url, weight: 2 }], share: 0.2 },
      }
      const nodes = [await startProxy({ acme: route }, { lane }), await startProxy({ acme: route })]
      t.teardown(() => Promise.all([...nodes, main, canary].map((server) => server.close())))
      const [node, other] = nodes as [(typeof nodes)[0], (typeof nodes)[0]]
      const auction = (n: number) => JSON.stringify({ id: `auction-${n}`, imp: [{ id: '1' }] })
      const bid = async (port: number, body: string) =>
        t.equal((await raw(port, post('/bid/acme', body))).status, 200)
      const count = 300
      for (let n = 0; n < count; n++) await bid(node.port, auction(n))
      const share = canary.requests.length / count
      t.ok(share > 0.13 && share < 0.27, `${share}`)
      const chosen = new Set(canary.requests.map(({ body }) => body))
      for (let n = 0; n < 60; n++) await bid(other.port, auction(n))
      const again = canary.requests.slice(chosen.size).map(({ body }) => body)
      t.ok(
        again.every((body) => chosen.has(body)),
        'the same auctions at another node',
      )
      t.ok(again.length > 0)

      const { registry } = node
      const value = (name: string, variant: string, more = '') =>
        sample(registry, `bidweir_canary_${name}{ssp="acme",variant="${variant}"${more}}`)
      const size = chosen.size
      t.equal(await value('requests_total', 'canary', ',outcome="answer"'), size)
      t.equal(await value('requests_total', 'main', ',outcome="answer"'), count - size)
      t.equal(await value('bids_total', 'canary'), 2 * size)
      t.equal(await value('bid_price_sum_total', 'canary'), 2.25 * size)
      t.equal(await value('bid_price_sum_total', 'main'), 1.5 * (count - size))
      t.equal(await value('upstream_duration_seconds_count', 'canary'), size)

      await bid(node.port, '{}')
      t.equal(main.requests.at(-1)!.body, '{}', 'without an id, none')
      const before = canary.requests.length
      const { connections } = main
      node.setSupplier('acme', { endpoints: [main.url] })
      for (let n = 0; n < 20; n++) await bid(node.port, auction(n))
      t.equal(canary.requests.length, before, 'taken away by a reload')
      t.equal(main.connections, connections)
    },
  )

t.test('the endpoints of a canary are ejected, checked and shown as others are', async (t) => {
  const main = await httpSupplier((_request, response) => response.end('{}'))
  const broken = await httpSupplier((_request, response) => response.writeHead(503).end())
  const good = await httpSupplier((_request, response) => response.end('{}'))
  const proxy = await startProxy({
    acme: { endpoints: [main.url], canary: { endpoints: [broken.url, good.url], share: 1 } },
  })
  t.teardown(() => Promise.all([proxy, main, broken, good].map((server) => server.close())))
  for (let n = 0; n < 60; n++) await raw(proxy.port, post('/bid/acme', `{"id":"${n}"}`))
  t.equal(main.requests.length, 0, 'all auctions are for the canary')
  const supplier = proxy.proxy.suppliers.get('acme')!
  t.same(
    supplier.everyEndpoint().map(({ state }) => state),
    ['up', 'ejected', 'up'],
  )
  const up = `bidweir_endpoint_up{ssp="acme",endpoint="${broken.url}"}`
  t.equal(await sample(proxy.registry, up), 0)
  const seen = broken.requests.length
  t.ok(seen < 20)
})
