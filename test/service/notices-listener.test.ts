/** `notices.listen`: win notices alone, with everything else kept on the admin listener (CONTRACT 2). */
import t from 'tap'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'

t.test('the listener of notices takes wins, and serves nothing else', async (t) => {
  const supplier = await echoSupplier()
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    more: 'notices: {listen: "127.0.0.1:0"}',
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const origin = `http://127.0.0.1:${node.bidweir.noticesPort}`
  const url = `${origin}/opd/imp`
  const { id, svcOpd } = await node.bid({ id: 'b1' })
  const query = new URLSearchParams({ bid_id: id, price: '0.5', svc_opd: svcOpd })
  const answer = async () => (await fetch(`${url}?${query}`)).json()
  t.same(await answer(), { status: 'attributed', by: 'context' })
  t.same(
    (await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })).body,
    { status: 'duplicate', by: 'context' },
    'both listeners share one ledger',
  )
  t.equal((await fetch(`${origin}/healthz`)).status, 200)
  t.equal((await fetch(`${url}?${query}`, { method: 'POST' })).status, 405)
  for (const path of [
    '/',
    '/metrics',
    '/readyz',
    '/readyz/admin',
    '/api/openapi.json',
    '/api/docs',
    '/api/svc/ssp/',
    '/opd/acme_yesbid',
    '/auth/realms/main/protocol/openid-connect/token',
    '/bid/acme',
  ]) {
    const { status, headers } = await fetch(origin + path)
    t.equal(status, 404, path)
    t.match(headers.get('content-type'), 'application/problem+json')
  }
})
