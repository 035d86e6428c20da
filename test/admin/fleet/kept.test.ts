/** Kept wins and spend are those of the last days: a restart does not forget them. */
import t from 'tap'
import type { LiveSnapshot } from '../../../admin/fleet/live-schema.ts'
import { newFolder } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

t.test('kept wins, kept spend and uplift survive a restart', async (t) => {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  const folder = newFolder()
  const options = {
    folder,
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true, holdout: .5, minWinRate: .6, minSpend: .5}'],
    more: `store: {database: "sqlite:${folder}/b.db"}
opd: {keys: [{id: 1, secret: ${Buffer.alloc(32, 5).toString('base64url')}}]}`,
  }
  const first = await serveNode(options)
  const kept = async ({ admin }: typeof first) => {
    const authorization = `Bearer ${await first.login()}`
    const response = await fetch(`${admin}/api/svc/live/`, { headers: { authorization } })
    const { integrations } = (await response.json()) as LiveSnapshot
    return integrations[0]!.modes[0]!
  }
  for (let index = 0; index < 40; index++) {
    const { id, svcOpd, out } = await first.bid({ id: `b${index}`, price: 2 })
    if (index % 4 < 3) await first.notify({ bid_id: id, price: out, svc_opd: svcOpd })
  }
  const before = await kept(first)
  t.ok(before.kept !== null && before.kept.lower < before.kept.at, 'both arms have won')
  await first.bidweir.stop()
  const second = await serveNode(options)
  t.teardown(() => second.bidweir.stop())
  const after = await kept(second)
  t.equal(after.bids, 0, 'the counters since the start begin again')
  const rounded = ({ kept, keptSpend, uplift }: typeof before) =>
    JSON.parse(JSON.stringify([kept, keptSpend, uplift]), (_key, value) =>
      typeof value === 'number' ? Number(value.toPrecision(9)) : value,
    )
  t.same(rounded(after), rounded(before))
  for (let index = 0; index < 8; index++) await second.bid({ id: `c${index}`, price: 2 })
  await until(async () => (await kept(second)).kept?.at !== before.kept?.at, {
    what: 'kept wins with the new bids',
  })
})
