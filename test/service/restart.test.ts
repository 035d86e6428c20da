/** What a node keeps when it starts again: rotations as docs/operations/upgrade.md describes them, the cap of a day. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { dayOf } from '../../opd/pricing/day-reductions.ts'
import { type ServedNode, serveNode } from '../support/served-node.ts'
import { echoSupplier, startNode, sumOf } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const key = (id: number) => `{id: ${id}, secret: ${Buffer.alloc(32, id).toString('base64url')}}`

t.test('the context key: no context of either key is lost', async (t) => {
  const supplier = await echoSupplier()
  const options = {
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    auth: 'none' as const,
  }
  let node = await serveNode({ ...options, more: `opd: {keys: [${key(1)}]}` })
  const { folder } = node
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const win = async (bid: { id: string; svcOpd: string }) =>
    (await node.notify({ bid_id: bid.id, price: '0.5', svc_opd: bid.svcOpd })).body
  const again = async (keys: string) => {
    await node.stop()
    node = await serveNode({ ...options, folder, more: `opd: {keys: [${keys}]}` })
  }
  const first = await node.bid({ id: 'first' })
  await again(`${key(1)}, ${key(2)}`)
  const second = await node.bid({ id: 'second' })
  await again(`${key(2)}, ${key(1)}`)
  const third = await node.bid({ id: 'third' })
  const attributed = { status: 'attributed', by: 'context' }
  for (const bid of [first, second]) t.match(await win(bid), attributed)
  await again(key(2))
  t.match(await win(third), attributed)
})

for (const workers of [1, 2])
  t.test(
    `bids of before a restart are found by their ids, with ${workers} processes`,
    async (t) => {
      const supplier = await echoSupplier()
      const options = {
        endpoint: supplier.url,
        suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
        auth: 'none' as const,
        workers,
      }
      const start = workers === 1 ? serveNode : startNode
      let node: ServedNode = await start(options)
      const { folder } = node
      t.teardown(async () => {
        await node.stop()
        await supplier.close()
      })
      for (let n = 0; n < 8; n++) await node.bid({ id: `b${n}` })
      await node.stop()
      node = await start({ ...options, folder })
      for (let n = 0; n < 8; n++) {
        const { body } = await node.notify({ bid_id: `b${n}`, price: '0.5' })
        t.match(body, { status: 'attributed', by: 'bid_log' })
      }
    },
  )

t.test('the key that signs tokens: old tokens end, sessions go on', async (t) => {
  const supplier = await echoSupplier()
  const options = { endpoint: supplier.url, suppliers: ['id: acme'] }
  let node = await serveNode(options)
  const { folder } = node
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const grant = async (fields: Record<string, string>) => {
    const body = new URLSearchParams({ client_id: 'public-client', ...fields })
    const url = `${node.admin}/auth/realms/main/protocol/openid-connect/token`
    return (await (await fetch(url, { method: 'POST', body })).json()) as Record<string, string>
  }
  const call = async (token: string) =>
    (await fetch(`${node.admin}/api/svc/ssp/`, { headers: { authorization: `Bearer ${token}` } }))
      .status
  const password = node.bidweir.password!
  const before = await grant({ grant_type: 'password', username: 'admin', password })
  t.equal(await call(before['access_token']!), 200)
  await node.stop()
  const database = new DatabaseSync(join(folder, 'data/bidweir.db'))
  database.exec('delete from signing_keys')
  database.close()
  node = await serveNode({ ...options, folder })
  await until(async () => (await fetch(`${node.admin}/readyz/admin`)).ok)
  t.equal(await call(before['access_token']!), 401)
  const refresh = { grant_type: 'refresh_token', refresh_token: before['refresh_token']! }
  t.equal(await call((await grant(refresh))['access_token']!), 200)
})

// CONTRACT 2, `opd.caps`
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
