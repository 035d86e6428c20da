/** The life of the listener: drain, TLS with certificates reloaded, reload without a dropped request. */
import { once } from 'node:events'
import { request } from 'node:https'
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { proxySchema, routeSchema } from '../../../proxy/config.ts'
import { certificate } from '../../support/certificate.ts'
import { startProxy } from '../../support/proxy.ts'
import { keptOpen, post, raw } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { holdLoop, until } from '../../support/until.ts'

t.test(
  'a drain answers what is in flight, closes connections, and then takes no more',
  async (t) => {
    const waiting: (() => void)[] = []
    const supplier = await httpSupplier((_request, response) =>
      waiting.push(() => response.end('{}')),
    )
    const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const inFlight = raw(proxy.port, post('/bid/acme', '1'), () => false)
    await until(() => waiting.length === 1)
    proxy.proxy.drain()
    const during = raw(proxy.port, post('/bid/acme', '2'), () => false)
    await until(() => waiting.length === 2)
    const closed = proxy.proxy.close()
    for (const answer of waiting) answer()
    for (const answer of [await inFlight, await during]) {
      t.equal(answer.status, 200)
      t.ok(answer.closed)
    }
    t.match((await during).head, /Connection: close/i)
    await closed
    t.equal((await raw(proxy.port, post('/bid/acme', '3'), () => false)).bytes, '')
  },
)

t.test('a request that arrived while the loop was held finds its connection open', async (t) => {
  const supplier = await httpSupplier((_request, response) => void response.end('{}'))
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { lane: 'fast', proxy: { keepAlive: '200ms', headTimeout: '200ms' } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const caller = keptOpen(proxy.port)
  t.match(await caller.ask(post('/bid/acme', '1')), { status: 200 })
  const asked = caller.ask(post('/bid/acme', '2'))
  holdLoop(600)
  // An answer of any kind: after such a hold the proxy may refuse the request as overload.
  t.match((await asked).bytes, /^HTTP\/1\.1 20/)
})

t.test('a caller that had connected when the listener closed is answered', async (t) => {
  const supplier = await httpSupplier((_request, response) => void response.end('{}'))
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  // Another thread sends while this one is blocked: the connections wait in the listener's queue.
  const sent = new Int32Array(new SharedArrayBuffer(4))
  const caller = new Worker(new URL('../../support/queued-calls.ts', import.meta.url), {
    workerData: { port: proxy.port, sent, calls: 20 },
  })
  const received = once(caller, 'message')
  Atomics.wait(sent, 0, 0)
  const closed = proxy.proxy.close()
  const [statuses] = await received
  t.same(statuses, Array(20).fill(200))
  await closed
})

for (const fastLane of [true, false])
  t.test(
    `a request that crosses the end of a drain is answered, fast lane: ${fastLane}`,
    async (t) => {
      const supplier = await httpSupplier((_request, response) => void response.end('{}'))
      const proxy = await startProxy(
        { acme: { endpoints: [supplier.url] } },
        { proxy: { fastLane } },
      )
      t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
      const callers = [keptOpen(proxy.port), keptOpen(proxy.port)] as const
      for (const { end } of callers) t.teardown(end)
      t.equal((await callers[0].ask(post('/bid/acme', '1'))).status, 200)
      const closed = proxy.proxy.close()
      // The listener is closed by then.
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
      const answers = await Promise.all(callers.map(({ ask }) => ask(post('/bid/acme', '2'))))
      for (const { status, head } of answers) {
        t.equal(status, 200)
        t.match(head, /Connection: close/i)
      }
      await closed
    },
  )

t.test(
  'a reload keeps requests in flight and counters, and adds, changes and removes suppliers',
  async (t) => {
    const waiting: (() => void)[] = []
    const supplier = await httpSupplier((_request, response) =>
      waiting.push(() => response.end('{}')),
    )
    const other = await httpSupplier((_request, response) => response.writeHead(204).end())
    const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
    t.teardown(() => Promise.all([proxy.close(), supplier.close(), other.close()]))
    const inFlight = raw(proxy.port, post('/bid/acme', '1'))
    await until(() => waiting.length === 1)
    const route = { ...routeSchema.parse({ endpoints: [other.url] }), id: 'new' }
    proxy.proxy.configure(proxySchema.parse({ listen: '127.0.0.1:0' }))
    proxy.proxy.setRoute(route)
    proxy.proxy.removeRoute('acme')
    t.equal((await raw(proxy.port, post('/bid/acme', '2'))).status, 404)
    t.equal((await raw(proxy.port, post('/bid/new', '3'))).status, 204)
    proxy.proxy.setRoute({ ...route, id: 'acme' })
    t.equal((await raw(proxy.port, post('/bid/acme', '4'))).status, 204, 'it has come back')
    waiting[0]!()
    t.equal((await inFlight).status, 200)
  },
)

const [first, second] = [certificate('one'), certificate('two')]
const skip = first === null || second === null ? 'openssl not found' : false

t.test('TLS inbound, and a new certificate for new connections', { skip }, async (t) => {
  const supplier = await httpSupplier((_request, response) => response.end('{}'))
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { proxy: { tls: first! } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const name = () =>
    new Promise<string>((resolve, reject) => {
      const sent = request(
        {
          port: proxy.port,
          path: '/bid/acme',
          method: 'POST',
          rejectUnauthorized: false,
          agent: false,
        },
        (answer) => {
          const { subject } = (answer.socket as import('node:tls').TLSSocket).getPeerCertificate()
          answer.resume().once('end', () => resolve(`${answer.statusCode} ${String(subject.CN)}`))
        },
      )
      sent.once('error', reject)
      sent.end('{}')
    })
  t.equal(await name(), '200 one')
  proxy.proxy.configure(proxySchema.parse({ listen: '127.0.0.1:0', tls: second! }))
  t.equal(await name(), '200 two')
  const garbage = await raw(proxy.port, 'GET / HTTP/1.1\r\n\r\n', () => false)
  t.ok(garbage.closed, 'plain text on a TLS port is closed')
  t.equal(await name(), '200 two')
})

t.test(
  'TLS connections age, and a silent handshake is closed beside others',
  { skip },
  async (t) => {
    const supplier = await httpSupplier((_request, response) => response.end('{}'))
    const proxy = await startProxy(
      { acme: { endpoints: [supplier.url] } },
      { proxy: { tls: first!, headTimeout: '300ms', maxConnectionAge: '0s' } },
    )
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const silent = connect(proxy.port, '127.0.0.1').resume()
    const over = new Promise((resolve) => silent.once('close', resolve))
    const { port } = proxy
    const head = await new Promise<string>((resolve, reject) => {
      const socket = connectTls({ port, rejectUnauthorized: false }, () =>
        socket.write(post('/bid/acme', '{}')),
      )
      let text = ''
      socket.on('data', (chunk) => {
        text += chunk.toString()
      })
      socket.on('close', () => resolve(text)).on('error', reject)
    })
    t.match(head, /^HTTP\/1\.1 200 /)
    t.match(head, /^connection: close/im)
    await over
    t.pass('the silent one is closed, although another shook hands in the meantime')
  },
)
