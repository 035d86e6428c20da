/**
 * A call that is refused before its body has come, by a caller who leaves before the answer: nothing of it is done.
 * fastify goes on behind a hook whose reply is over, and a reply is over, too, after its caller has left.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { echoSupplier, startNode, sumOf } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const supplier = await echoSupplier()
const node = await startNode({
  endpoint: supplier.url,
  auth: 'bearer',
  suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
})
t.teardown(async () => {
  await node.stop()
  await supplier.close()
})
const { adminPort } = node.bidweir

/** Sends a head that names a body, and leaves without one. */
async function leave(head: string, body = ''): Promise<void> {
  const socket = connect(adminPort, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`${head} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n${body}`)
  await once(socket, 'connect')
  // The service has read the head by then: one round trip to accept the connection, one to read.
  for (let trip = 0; trip < 2; trip++) await fetch(`${node.admin}/healthz`)
  socket.destroy()
  await once(socket, 'close')
}

const statuses = async () => {
  const metrics = await node.metrics()
  const countOf = (status: string) =>
    sumOf(metrics, 'bidweir_impressions_total', `status="${status}"`)
  return {
    rejected: countOf('rejected'),
    attributed: countOf('attributed'),
    unattributed: countOf('unattributed'),
  }
}

t.test('a notice without a token whose caller has left writes nothing', async (t) => {
  const { id, svcOpd } = await node.bid({ id: 'won' })
  const notices = [
    `GET /opd/imp?bid_id=${id}&price=1&svc_opd=${svcOpd}`,
    `GET /opd/imp?bid_id=${id}&price=1`,
    'GET /opd/imp?bid_id=ghost&price=1',
  ]
  for (const head of notices) await leave(head)
  const received = async () => sumOf(await node.metrics(), 'bidweir_impressions_received_total')
  await until(async () => (await received()) === notices.length)
  t.same(await statuses(), { rejected: 3, attributed: 0, unattributed: 0 })
  const authorization = `Bearer ${await node.login()}`
  const first = await node.notify({ bid_id: id, price: '1', svc_opd: svcOpd }, { authorization })
  t.match(first.body, { status: 'attributed' }, 'it had not been counted')
})

t.test('a call without a token whose caller has left changes nothing', async (t) => {
  for (const path of ['ssp/', 'ssp/acme/', 'opd/', 'audit/', 'live/', 'reports/wins'])
    await leave(`GET /api/svc/${path}`)
  for (const path of ['/nowhere', '/opd/imp', '/opd/acme_yesbid', '/api/svc/ssp/acme/'])
    await leave(`POST ${path}`, '{"a":')
  t.equal((await node.api('/api/svc/ssp/')).status, 200)
  t.notMatch(node.bidweir.stderr(), /"level":(50|60)|Error/, 'nothing failed behind the refusal')
})
