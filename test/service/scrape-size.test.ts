/** A scrape of 3,000 suppliers that all have traffic and wins stays below 5 MB (CONTRACT 10). */
import t from 'tap'
import { echoSupplier, startNode, sumOf } from '../support/wins.ts'

const count = 3000
const concurrent = 32
/** Bids of each supplier; each comes from another publisher and domain. */
const bidsEach = 2

t.test('3,000 suppliers with traffic and wins', async (t) => {
  const supplier = await echoSupplier()
  const ids = Array.from({ length: count }, (_, n) => `supplier-${n}`)
  const node = await startNode({
    endpoint: supplier.url,
    suppliers: ids.map((id) => `id: ${id}, opd: {enabled: true}`),
    auth: 'none',
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })

  async function serve(ssp: string): Promise<void> {
    for (let n = 0; n < bidsEach; n++) {
      const site = { domain: `${n}.news.example`, publisher: { id: `publisher-${n}` } }
      const { svcOpd, id } = await node.bid({ id: `${ssp}-${n}`, ssp, request: { site } })
      await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
      if (n === 0) await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
    }
  }
  const waiting = [...ids]
  const worker = async () => {
    for (let ssp = waiting.pop(); ssp !== undefined; ssp = waiting.pop()) await serve(ssp)
  }
  await Promise.all(Array.from({ length: concurrent }, worker))

  const text = await (await fetch(`${node.admin}/metrics`)).text()
  t.ok(text.length < 5_000_000, `${text.length} bytes`)
  const metrics = await node.metrics()
  const bids = count * bidsEach
  t.equal(sumOf(metrics, 'bidweir_requests_total'), bids)
  t.equal(sumOf(metrics, 'bidweir_publisher_impressions_total'), bids)
  t.equal(sumOf(metrics, 'bidweir_cleared_price_sum_total'), bids / 2, 'no win is lost')
  t.equal(sumOf(metrics, 'bidweir_margin_count'), bids)
  t.ok(sumOf(metrics, 'bidweir_cleared_price_sum_total', 'ssp="_other"') > 0, 'suppliers share')
  const limits = [...metrics.keys()].filter((series) => series.startsWith('bidweir_supplier_limit'))
  t.equal(limits.length, 300, 'the busiest have all gauges')
})
