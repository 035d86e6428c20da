/** Suppliers over TLS: sessions, certificates, unusual responses, and faults. */
import { once } from 'node:events'
import { type AddressInfo, createServer as createPlain, type Socket } from 'node:net'
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls'
import t, { type Test } from 'tap'
import { startProxy } from '../../support/proxy.ts'
import { post, raw, segment } from '../../support/raw.ts'
import { answerText, rawSupplier } from '../../support/supplier.ts'
import { rawSocketOf, testCertificate } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const skip = testCertificate() === null ? 'openssl not found' : false

const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
const uninvited = 'HTTP/1.1 100 Continue\r\n\r\n'

for (const [name, interim] of Object.entries({
  'an uninvited 100 Continue': uninvited,
  '103 Early Hints': hints,
  'several interim responses': uninvited + hints + uninvited,
}))
  t.test(`${name} is passed over`, { skip }, async (t) => {
    const bytes = Buffer.from(interim + answerText('200 OK', '"here"'))
    let cut = 0
    const supplier = await rawSupplier(async (socket) => {
      if (cut > 0) await segment(socket, bytes.subarray(0, cut))
      socket.write(bytes.subarray(cut))
    }, 'tls')
    const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    for (cut of [0, 1, 11, 20, interim.length, interim.length + 1, bytes.length - 1]) {
      const response = await raw(proxy.port, post('/bid/acme', '{}'))
      t.match(response, { status: 200, body: '"here"' }, `cut at ${cut}`)
      t.equal(response.headers['link'], undefined)
    }
    t.equal(supplier.connections, 1, 'the connection is kept')
  })

/** A supplier on node:tls with these options; `requests` counts those that it got. */
async function tlsSupplier(
  t: Test,
  options: TlsOptions,
  respond: (socket: TLSSocket, nth: number) => void,
) {
  const sockets = new Set<Socket>()
  const supplier = { port: 0, handshakes: [] as object[], requests: 0 }
  const server = createServer({ ...testCertificate(), ...options }, (socket) => {
    const [reused, protocol] = [socket.isSessionReused(), socket.getProtocol()]
    supplier.handshakes.push({ reused, protocol, alpn: socket.alpnProtocol })
    socket.on('error', () => {})
    socket.on('data', () => respond(socket, ++supplier.requests))
  })
  server.on('connection', (socket) => void sockets.add(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return Object.assign(supplier, { port: (server.address() as AddressInfo).port })
}

const closing = answerText('200 OK', '{}', 'Connection: close\r\n')

for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
  t.test(
    `${version}: the next connection resumes the session of the one before it`,
    { skip },
    async (t) => {
      const supplier = await tlsSupplier(
        t,
        { minVersion: version, maxVersion: version, ALPNProtocols: ['http/1.1'] },
        (socket) => socket.end(closing),
      )
      const route = { endpoints: [`https://127.0.0.1:${supplier.port}/bid`] }
      const proxy = await startProxy({ acme: route }, { lane: 'fast' })
      t.teardown(() => proxy.close())
      for (let n = 0; n < 3; n++)
        t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 200)
      const handshake = { protocol: version, alpn: 'http/1.1' }
      t.strictSame(
        supplier.handshakes,
        [false, true, true].map((reused) => ({ reused, ...handshake })),
      )
    },
  )

t.test(
  'a supplier gets the name of its endpoint, and nothing if its certificate has another name',
  { skip },
  async (t) => {
    const names: string[] = []
    const SNICallback: TlsOptions['SNICallback'] = (name, done) => {
      names.push(name)
      done(null)
    }
    const supplier = await tlsSupplier(t, { SNICallback }, (socket) => socket.write(closing))
    // The certificate is that of the address.
    const route = { endpoints: [`https://localhost:${supplier.port}/bid`], onFailure: 'status' }
    const proxy = await startProxy({ acme: route }, { lane: 'fast' })
    t.teardown(() => proxy.close())
    const response = await raw(proxy.port, post('/bid/acme', '{}'))
    t.match(response, { status: 502, headers: { 'x-bidweir-reason': 'upstream_error' } })
    t.strictSame(new Set(names), new Set(['localhost']))
    t.equal(supplier.requests, 0)
    t.match(proxy.lines, [{ reason: 'broken', err: /altnames/ }])
  },
)

/** Bytes past the TLS of the supplier. */
const faults: Record<string, (below: Socket) => void> = {
  'plain bytes': (below) => below.write(answerText('200 OK', '{}')),
  'a record with a wrong tag': (below) =>
    below.write(Buffer.concat([Buffer.from('1703030020', 'hex'), Buffer.alloc(32, 7)])),
  'a record that is cut': (below) => below.end(Buffer.from('1703030100aabbccdd', 'hex')),
  'a reset': (below) => void below.resetAndDestroy(),
}

for (const [name, fail] of Object.entries(faults))
  t.test(`${name} instead of a response is upstream_error at once`, { skip }, async (t) => {
    const supplier = await rawSupplier((socket, request) => {
      if (request.endsWith('"good"')) socket.write(answerText('200 OK', '{}'))
      else fail(rawSocketOf(socket))
    }, 'tls')
    const route = { endpoints: [supplier.url], onFailure: 'status', timeout: '60s' }
    const proxy = await startProxy({ acme: route }, { lane: 'fast' })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 502)
    t.equal((await raw(proxy.port, post('/bid/acme', '"good"'))).status, 200)
    t.equal(proxy.proxy.suppliers.get('acme')!.inFlight, 0)
  })

t.test('a handshake that the supplier never answers ends at the deadline', { skip }, async (t) => {
  const sockets: Socket[] = []
  const supplier = createPlain((socket) => sockets.push(socket)).listen(0, '127.0.0.1')
  await once(supplier, 'listening')
  const { port } = supplier.address() as AddressInfo
  const route = { endpoints: [`https://127.0.0.1:${port}/bid`], timeout: '100ms' }
  const proxy = await startProxy({ acme: { ...route, onFailure: 'status' } }, { lane: 'fast' })
  t.teardown(async () => {
    await proxy.close()
    for (const socket of sockets) socket.destroy()
    supplier.close()
  })
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 504)
  await until(() => sockets.length === 1 && sockets[0]!.readableEnded === false)
  const [handshake] = sockets
  handshake!.resume()
  await once(handshake!, 'close')
  t.equal(proxy.proxy.suppliers.get('acme')!.endpoints.all[0]!.pool.open, 0)
})
