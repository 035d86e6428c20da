/** What Prometheus needs for figures of all nodes: sums by arm, of which ratios are win rates, kept spend and uplift. */
import t from 'tap'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier, sumOf } from '../support/service-node.ts'

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
  const of = (name: string, arm: string) =>
    sumOf(metrics, `bidweir_arm_${name}_total`, 'ssp="acme"', 'mode="revenue"', `arm="${arm}"`)
  const both = (name: string) => of(name, 'optimised') + of(name, 'holdout')
  t.equal(both('bids'), bids)
  t.equal(both('wins'), bids / 2)
  t.equal(both('in_price_sum'), bids * 2)
  t.equal(both('won_in_price_sum'), bids)
  t.equal(both('won_in_price_squares'), bids * 2)
  t.equal(both('cleared_price_sum'), bids / 4)
  const reasons = (reason: string) =>
    sumOf(metrics, 'bidweir_bids_total', 'ssp="acme"', `reason="${reason}"`)
  t.equal(of('bids', 'holdout'), reasons('holdout'))
  t.equal(of('bids', 'optimised'), reasons('treated') + reasons('explored'))
  for (const arm of ['optimised', 'holdout']) {
    t.ok(of('bids', arm) > 0, arm)
    t.equal(of('won_in_price_sum', arm), 2 * of('wins', arm), arm)
    const rate = metrics.get(`bidweir_win_rate{ssp="acme",mode="revenue",arm="${arm}"}`)
    t.equal(of('wins', arm) / of('bids', arm), rate ?? 0, arm)
  }
  t.equal(sumOf(metrics, 'bidweir_arm_bids_total', 'ssp="off"'), 0)
})
