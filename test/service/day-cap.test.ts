/** The cap of a day holds after a restart (CONTRACT 2, `opd.caps`). */
import t from 'tap'
import { dayOf } from '../../opd/engine/day-reductions.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier, sumOf } from '../support/service-node.ts'

t.test('a node that starts again on the same day keeps to the cap', async (t) => {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  const suppliers = ['id: acme, opd: {enabled: true, holdout: 0, caps: {perDay: 0.000001}}']
  const options = { suppliers, endpoint: supplier.url }
  const day = dayOf(Date.now())
  const first = await serveNode(options)
  t.teardown(() => first.stop())
  const bid = await first.bid({ id: 'a', price: 10 })
  t.ok(bid.price < 10, 'the first bid is lowered')
  const won = { bid_id: 'a', price: String(bid.price), svc_opd: bid.svcOpd }
  t.match((await first.notify(won)).body, { status: 'attributed' })
  const next = (await first.bid({ id: 'b', price: 10 })).price
  if (dayOf(Date.now()) === day) t.equal(next, 10)
  const used = async (node: typeof first) =>
    sumOf(await node.metrics(), 'bidweir_opd_day_cap_used_ratio', 'ssp="acme"')
  const before = await used(first)
  await first.stop()

  const second = await serveNode({ ...options, folder: first.folder })
  t.teardown(() => second.stop())
  const after = await used(second)
  const { price } = await second.bid({ id: 'c', price: 10 })
  const metrics = await second.metrics()
  if (dayOf(Date.now()) !== day) return t.comment('the day ended during the test')
  t.equal(after, before)
  t.equal(price, 10)
  t.equal(sumOf(metrics, 'bidweir_bids_total', 'ssp="acme"', 'reason="capped"'), 1)
})
