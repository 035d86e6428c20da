/** Rotations as docs/operations/upgrade.md describes them. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'
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
