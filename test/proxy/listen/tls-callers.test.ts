/** Callers over TLS on the fast lane: handshakes, sessions, and ends of connections. tls.test.ts has the requests. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { sample, startProxy, type TestProxy } from '../../support/proxy.ts'
import { post } from '../../support/raw.ts'
import { answerText, rawSupplier } from '../../support/supplier.ts'
import { testCertificate } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const tls = testCertificate()
const skip = tls === null ? 'openssl not found' : false
const host = '127.0.0.1'

const closed = (proxy: TestProxy, reason: string) =>
  sample(proxy.registry, `bidweir_connections_closed_total{reason="${reason}"}`)

/** A listener over TLS before a supplier that answers every request but `"waits"`. */
async function world(t: Test, options: object = {}) {
  const supplier = await rawSupplier((socket, request) => {
    if (!request.endsWith('"waits"')) socket.write(answerText('200 OK', '{}'))
  })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { lane: 'fast', proxy: { tls, ...options } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  return { supplier, proxy }
}

/** A bid on a connection of its own, which stays open. */
async function bidOver(port: number, options: ConnectionOptions = {}) {
  const socket = connectTls({ port, host, ...options }).on('error', () => {})
  const sessions: Buffer[] = []
  socket.on('session', (session) => sessions.push(session))
  const ended = new Promise((resolve) => socket.on('close', resolve))
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString()
  })
  socket.write(post('/bid/acme', '{}'))
  await until(() => text.endsWith('{}'))
  return { socket, sessions, text, ended }
}

/** Whether a new caller is served. */
async function isServed({ port }: TestProxy): Promise<boolean> {
  const { socket, text } = await bidOver(port)
  socket.destroy()
  return text.startsWith('HTTP/1.1 200 ')
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
  t.test(
    `${version}: a caller resumes its session; a session of another listener is a full handshake`,
    { skip },
    async (t) => {
      const { proxy } = await world(t)
      const other = await world(t)
      const versions = { minVersion: version, maxVersion: version }
      const first = await bidOver(proxy.port, versions)
      t.equal(first.socket.getProtocol(), version)
      t.equal(first.socket.isSessionReused(), false)
      await until(() => first.sessions.length > 0)
      const session = first.sessions.at(-1)!
      const second = await bidOver(proxy.port, { ...versions, session })
      t.equal(second.socket.isSessionReused(), true)
      const third = await bidOver(other.proxy.port, { ...versions, session })
      t.equal(third.socket.isSessionReused(), false)
      for (const { socket } of [first, second, third]) socket.destroy()
    },
  )

t.test(
  'ALPN chooses http/1.1, and a caller that offers another protocol alone is refused',
  { skip },
  async (t) => {
    const { proxy } = await world(t)
    const { socket } = await bidOver(proxy.port, { ALPNProtocols: ['h2', 'http/1.1'] })
    t.equal(socket.alpnProtocol, 'http/1.1')
    socket.destroy()
    const refused = connectTls({ port: proxy.port, host, ALPNProtocols: ['h2'] })
    const [failure] = await once(refused, 'error')
    t.equal(failure.code, 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL')
    await until(async () => (await closed(proxy, 'tls')) === 1)
  },
)

t.test('a renegotiation is refused', { skip }, async (t) => {
  const { proxy } = await world(t)
  const { socket } = await bidOver(proxy.port, { maxVersion: 'TLSv1.2' })
  const failed = once(socket, 'error')
  socket.renegotiate({}, () => t.fail('renegotiated'))
  const [failure] = await failed
  t.match(failure.message, /no renegotiation/)
  t.ok(await isServed(proxy))
})

/** Passes one connection on to the listener: what the listener sends, and the socket on which bytes can be added. */
async function relayTo(t: Test, target: number) {
  const received: Buffer[] = []
  const listener = connect(target, host).on('error', () => {})
  listener.on('data', (chunk) => received.push(chunk as Buffer))
  const server = createServer((caller) => {
    caller.on('error', () => listener.destroy()).pipe(listener)
    listener.pipe(caller)
  }).listen(0, host)
  await once(server, 'listening')
  t.teardown(() => {
    listener.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, received, listener }
}

/** The types of the records of TLS 1.2 in these bytes (RFC 5246 6.2.1). */
function recordTypes(received: Buffer[]): number[] {
  const bytes = Buffer.concat(received)
  const types: number[] = []
  for (let from = 0; from < bytes.length; from += 5 + bytes.readUInt16BE(from + 3))
    types.push(bytes[from]!)
  return types
}

t.test(
  'close_notify is the last record of a connection, by age and in a drain',
  { skip },
  async (t) => {
    const alert = 21
    const old = await world(t, { maxConnectionAge: '0s' })
    const first = await relayTo(t, old.proxy.port)
    const aged = await bidOver(first.port, { maxVersion: 'TLSv1.2' })
    t.match(aged.text, /^connection: close/im)
    await aged.ended
    t.equal(recordTypes(first.received).at(-1), alert)
    const { proxy } = await world(t)
    const second = await relayTo(t, proxy.port)
    const idle = await bidOver(second.port, { maxVersion: 'TLSv1.2' })
    await proxy.proxy.close()
    await idle.ended
    t.equal(recordTypes(second.received).at(-1), alert)
  },
)

/** What comes past the TLS of the caller, after its handshake. */
const faults: Record<string, (listener: Socket) => void> = {
  'plain bytes': (listener) => listener.write('POST /bid/acme HTTP/1.1\r\n\r\n'),
  'a record that is cut': (listener) => listener.end(Buffer.from('1703030100aabbccdd', 'hex')),
  'a record with a wrong tag': (listener) =>
    listener.write(Buffer.concat([Buffer.from('1703030020', 'hex'), Buffer.alloc(32, 7)])),
  'a reset': (listener) => void listener.resetAndDestroy(),
}

for (const [name, fail] of Object.entries(faults))
  for (const waits of [false, true])
    t.test(
      `${name} ${waits ? 'while a bid waits' : 'between bids'}: the connection ends, others are served`,
      { skip },
      async (t) => {
        const { proxy, supplier } = await world(t)
        const relay = await relayTo(t, proxy.port)
        const { socket } = await bidOver(relay.port)
        if (waits) {
          socket.write(post('/bid/acme', '"waits"'))
          await until(() => supplier.requests.length === 2)
        }
        fail(relay.listener)
        await until(async () => (await sample(proxy.registry, 'bidweir_connections')) === 0)
        t.equal(proxy.proxy.suppliers.get('acme')!.inFlight, 0)
        t.ok(await isServed(proxy))
        socket.destroy()
      },
    )

/** The first bytes that a caller sends in a handshake. */
async function clientHello(): Promise<Buffer> {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const caller = connectTls({ port: (server.address() as AddressInfo).port, host })
  const [accepted] = (await once(caller.on('error', () => {}) && server, 'connection')) as [Socket]
  const [hello] = await once(accepted, 'data')
  caller.destroy()
  accepted.destroy()
  server.close()
  return hello
}

t.test(
  'a handshake that is not complete within headTimeout is closed, wherever it stops',
  { skip },
  async (t) => {
    const { proxy } = await world(t, { headTimeout: '300ms' })
    const hello = await clientHello()
    const beginnings = {
      nothing: '',
      'a part of a record': hello.subarray(0, hello.length >> 1),
      'a whole hello': hello,
    }
    const ends = Object.entries(beginnings).map(async ([name, bytes]) => {
      const socket = connect(proxy.port, host).on('error', () => {})
      socket.resume().write(bytes)
      await once(socket, 'close')
      t.pass(name)
    })
    await Promise.all(ends)
    await until(async () => (await closed(proxy, 'tls')) === 3)
    await until(async () => (await sample(proxy.registry, 'bidweir_connections')) === 0)
    t.ok(await isServed(proxy))
  },
)
