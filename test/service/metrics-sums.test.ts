/**
 * Sums of /metrics: those of 3,000 suppliers that all have traffic and wins stay below 5 MB (CONTRACT 10); those by arm are
 * what Prometheus needs for figures of all nodes, since their ratios are win rates, kept spend and uplift.
 */
import t from 'tap'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier, sumOf } from '../support/service-node.ts'

const count = 3000
/** One supplier in so many has its notice twice. */
const repeated = 10
/** Wins that arrive together are one commit. */
const concurrent = 32

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

  async function serve(ssp: string, isRepeated: boolean): Promise<void> {
    const { id, svcOpd } = await node.bid({ id: `bid of ${ssp}`, ssp })
    for (const status of isRepeated ? ['attributed', 'duplicate'] : ['attributed']) {
      const { body } = await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
      if (body['status'] !== status) t.fail(`${ssp}: ${body['status']}`)
    }
  }
  const waiting = [...ids]
  const worker = async () => {
    for (let ssp = waiting.pop(); ssp !== undefined; ssp = waiting.pop())
      await serve(ssp, waiting.length % repeated === 0)
  }
  await Promise.all(Array.from({ length: concurrent }, worker))

  const text = await (await fetch(`${node.admin}/metrics`)).text()
  const metrics = await node.metrics()
  const duplicates = [...metrics.keys()].filter((series) => series.includes('status="duplicate"'))
  t.equal(duplicates.length, count / repeated)
  // As if all suppliers had repeated notices.
  const size = text.length + (repeated - 1) * `${duplicates.join(' 1\n')} 1\n`.length
  t.ok(size < 5_000_000, `${size} bytes`)
  t.equal(sumOf(metrics, 'bidweir_requests_total', 'outcome="answer"'), count)
  t.equal(sumOf(metrics, 'bidweir_publisher_impressions_total'), count)
  t.equal(sumOf(metrics, 'bidweir_cleared_price_sum_total'), count / 2, 'no win is lost')
  t.equal(sumOf(metrics, 'bidweir_margin_count'), count)
  t.ok(sumOf(metrics, 'bidweir_cleared_price_sum_total', 'ssp="_other"') > 0, 'suppliers share')
  const limits = [...metrics.keys()].filter((series) =>
    series.startsWith('bidweir_supplier_limit{'),
  )
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

const bids = 60

t.test('sums by arm are those of the bids and of their wins', async (t) => {
  const supplier = await echoSupplier()
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0.4}', 'id: off'],
    auth: 'none',
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  for (let n = 0; n < bids; n++) {
    const { id, svcOpd } = await node.bid({ id: `b${n}`, price: 2 })
    if (n < bids / 2) await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
  }
  await node.bid({ id: 'unpriced', ssp: 'off' })

  const metrics = await node.metrics()
  const totalOf = (name: string, arm: string) =>
    sumOf(metrics, `bidweir_arm_${name}_total`, 'ssp="acme"', 'mode="revenue"', `arm="${arm}"`)
  const both = (name: string) => totalOf(name, 'optimised') + totalOf(name, 'holdout')
  t.equal(both('bids'), bids)
  t.equal(both('wins'), bids / 2)
  t.equal(both('in_price_sum'), bids * 2)
  t.equal(both('won_in_price_sum'), bids)
  t.equal(both('won_in_price_squares'), bids * 2)
  t.equal(both('cleared_price_sum'), bids / 4)
  const reasons = (reason: string) =>
    sumOf(metrics, 'bidweir_bids_total', 'ssp="acme"', `reason="${reason}"`)
  t.equal(totalOf('bids', 'holdout'), reasons('holdout'))
  t.equal(totalOf('bids', 'optimised'), reasons('treated') + reasons('explored'))
  for (const arm of ['optimised', 'holdout']) {
    t.ok(totalOf('bids', arm) > 0, arm)
    t.equal(totalOf('won_in_price_sum', arm), 2 * totalOf('wins', arm), arm)
    const rate = metrics.get(`bidweir_win_rate{ssp="acme",mode="revenue",arm="${arm}"}`)
    t.equal(totalOf('wins', arm) / totalOf('bids', arm), rate ?? 0, arm)
  }
  t.equal(sumOf(metrics, 'bidweir_arm_bids_total', 'ssp="off"'), 0)
})
