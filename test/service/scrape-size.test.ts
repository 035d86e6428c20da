/** A scrape of 3,000 suppliers that all have traffic and wins stays below 5 MB (CONTRACT 10). */
import t from 'tap'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier, sumOf } from '../support/service-node.ts'

const count = 3000
/** Wins that arrive together are one commit. */
const concurrent = 64

t.test('3,000 suppliers with traffic and wins', async (t) => {
  const supplier = await echoSupplier()
  const ids = Array.from({ length: count }, (_, n) => `example-exchange-${n}`)
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ids.map((id) => `id: ${id}, opd: {enabled: true}`),
    auth: 'none',
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })

  async function serve(ssp: string): Promise<void> {
    const { id, svcOpd } = await node.bid({ id: `bid of ${ssp}`, ssp })
    for (const status of ['attributed', 'duplicate']) {
      const { body } = await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
      if (body['status'] !== status) t.fail(`${ssp}: ${body['status']}`)
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
  t.equal(sumOf(metrics, 'bidweir_requests_total', 'outcome="answer"'), count)
  t.equal(sumOf(metrics, 'bidweir_publisher_impressions_total'), count)
  t.equal(sumOf(metrics, 'bidweir_cleared_price_sum_total'), count / 2, 'no win is lost')
  t.equal(sumOf(metrics, 'bidweir_margin_count'), count)
  t.ok(sumOf(metrics, 'bidweir_cleared_price_sum_total', 'ssp="_other"') > 0, 'suppliers share')
  const limits = [...metrics.keys()].filter((series) => series.startsWith('bidweir_supplier_limit'))
  t.ok(limits.length >= 300 && limits.length < 400, 'the busiest have all gauges')
})

t.test('publishers and domains have no series of their own if none is wanted', async (t) => {
  const supplier = await echoSupplier()
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true}'],
    auth: 'none',
    more: 'metrics: {publishers: 0, domains: 0}',
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const { id, svcOpd } = await node.bid({ id: 'b', ssp: 'acme' })
  await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
  const text = await (await fetch(`${node.admin}/metrics`)).text()
  t.match(text, /^bidweir_impressions_total\{.*status="attributed".*\} 1$/m)
  t.same(
    text.match(
      /^bidweir_(publisher|domain)_impressions_total\{.*(publisher|domain)="(?!other").*$/gm,
    ),
    null,
  )
})
