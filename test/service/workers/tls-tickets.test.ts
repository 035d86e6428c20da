/** A TLS session of a caller goes on at another process of the node, and at other nodes with the same `ticketKey`. */
import { type ConnectionOptions, connect } from 'node:tls'
import t, { type Test } from 'tap'
import { TicketKeys } from '../../../proxy/listen/ticket-keys.ts'
import { certificate } from '../../support/certificate.ts'
import { post, raw } from '../../support/raw.ts'
import { echoSupplier, startNode } from '../../support/service-node.ts'
import { startWorkers } from '../../support/workers.ts'

const pair = certificate('127.0.0.1')
const skip = pair === null ? 'openssl not found' : false
const secret = Buffer.alloc(32, 3).toString('base64url')
const day = 86_400_000

/** `proxy.tls` as YAML, to be put behind the address of the listener. */
const listenWith = (more = '') =>
  `127.0.0.1:0", tls: ${JSON.stringify(pair).replace(/}$/, `${more}}`)}, via: false, recompress: "same`

interface Bid {
  session: Buffer
  isReused: boolean
  status: number
}

async function bid(port: number, more: ConnectionOptions): Promise<Bid> {
  const state = { session: Buffer.alloc(0), isReused: false }
  const body = '{"id":"q","ext":{"bids":[]}}'
  const { status } = await raw(port, post('/bid/acme', body), undefined, () => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...more })
    return socket
      .on('session', (session) => {
        state.session = session
      })
      .on('secureConnect', () => {
        state.isReused = socket.isSessionReused()
      })
  })
  return { ...state, status }
}

async function supplierOf(t: Test) {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  return supplier.url
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
  t.test(`${version}: a session of one worker is resumed by the others`, { skip }, async (t) => {
    const node = await startWorkers({ endpoint: await supplierOf(t), listen: listenWith() })
    t.teardown(() => node.stop())
    const only = { minVersion: version, maxVersion: version }
    const { session, status } = await bid(node.bidweir.proxyPort, only)
    t.equal(status, 200)
    // Linux chooses the process by the caller's port.
    const later = []
    for (let n = 0; n < 40; n++) later.push(await bid(node.bidweir.proxyPort, { ...only, session }))
    t.ok(later.every(({ isReused, status }) => isReused && status === 200))
    const counts = await node.requestsByWorker()
    t.ok(
      counts.every((count) => count > 0),
      `${counts}: each process had some`,
    )
  })

t.test(
  'nodes with one ticketKey accept each other’s tickets, and no others',
  { skip },
  async (t) => {
    const endpoint = await supplierOf(t)
    const suppliers = ['id: acme']
    const [one, two, alone] = await Promise.all(
      [
        listenWith(`, ticketKey: ${secret}`),
        listenWith(`, ticketKey: ${secret}`),
        listenWith(),
      ].map((listen) => startNode({ endpoint, suppliers, listen })),
    )
    t.teardown(() => Promise.all([one, two, alone].map((node) => node!.stop())))
    const { session } = await bid(one!.bidweir.proxyPort, {})
    t.match(await bid(two!.bidweir.proxyPort, { session }), { isReused: true, status: 200 })
    t.match(await bid(alone!.bidweir.proxyPort, { session }), { isReused: false, status: 200 })
  },
)

t.test('keys change with each period, and processes that started at different times agree', (t) => {
  const first = new TicketKeys(null, 0)
  const worker = new TicketKeys(first.secret(0), 0)
  const before = first.key(0, null, '')
  t.same(worker.key(1000, null, ''), before)
  const after = first.key(2 * day, null, '')
  t.notSame(after, before)
  t.same(worker.key(2 * day, null, ''), after, 'it derived the same')
  t.same(new TicketKeys(first.secret(2 * day), 2 * day).key(2 * day, null, ''), after, 'a new one')
  t.notSame(new TicketKeys(null, 0).key(0, null, ''), before, 'another node')
  t.notSame(first.key(2 * day, null, 'CA'), after, 'other authorities of callers')
  t.same(first.key(0, secret, ''), new TicketKeys(null, 0).key(1000, secret, ''))
  t.notSame(first.key(0, secret, ''), first.key(day, secret, ''))
  t.end()
})
