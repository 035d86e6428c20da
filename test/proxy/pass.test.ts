/** `/pass/…`: whatever else lives on the supplier's host, never rewritten, and never a way to bring the process down. */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { sample, startProxy } from '../support/proxy.ts'
import { raw } from '../support/raw.ts'
import { httpSupplier, rawSupplier, type TestSupplier } from '../support/supplier.ts'

const origin = (supplier: TestSupplier) => new URL(supplier.url).origin
const get = (path: string, headers = '') =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: a.example\r\n${headers}\r\n`)

t.test('any method and path go to the configured origin, and nowhere without one', async (t) => {
  const supplier = await httpSupplier((request, response, body) =>
    response.end(`${request.method} ${request.url} ${body}`),
  )
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
    other: { endpoints: [supplier.url] },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  t.equal((await raw(proxy.port, get('/pass/acme/sync?u=1'))).body.includes('GET /sync?u=1'), true)
  const put = Buffer.from('PUT /pass/acme/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi')
  t.match((await raw(proxy.port, put)).body, /PUT \/x hi/)
  t.equal((await raw(proxy.port, get('/pass/other/x'))).status, 404)
  t.equal((await raw(proxy.port, get('/pass/nobody/x'))).status, 404)
})

t.test('paths, fields and bodies go through byte for byte, those of the hop do not', async (t) => {
  const supplier = await rawSupplier((socket) =>
    socket.write(
      'HTTP/1.1 299 Odd\r\nX-UPPER: 1\r\nSet-Cookie: a\r\nset-cookie: b\r\nConnection: X-Hop\r\nX-Hop: 1\r\nProxy-Authenticate: x\r\nContent-Length: 2\r\n\r\nok',
    ),
  )
  const seen: string[] = []
  const recording = await rawSupplier((socket, request) => {
    seen.push(request)
    socket.write('HTTP/1.1 204 No Content\r\n\r\n')
  })
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
    rec: { endpoints: [supplier.url], passThrough: origin(recording) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close(), recording.close()]))
  const back = await raw(proxy.port, get('/pass/acme/x'))
  t.match(
    back.head,
    /^HTTP\/1.1 299 Odd\r\nX-UPPER: 1\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-L/,
  )
  t.notMatch(back.head, /x-hop|proxy-auth/i)
  const fields =
    'X-CASE: y\r\nx-two: 1\r\nX-Two: 2\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nProxy-Authorization: z\r\n'
  await raw(proxy.port, get('/pass/rec//a/../b%2e?c=\\&d', fields))
  t.match(seen[0], /^GET \/\/a\/\.\.\/b%2e\?c=\\&d HTTP\/1\.1\r\n/)
  t.match(seen[0], '\r\nX-CASE: y\r\nx-two: 1\r\nX-Two: 2\r\nX-Forwarded-For: 127.0.0.1\r\n')
  t.notMatch(seen[0], /x-hop|proxy-auth|trailers/i)
})

t.test('a WebSocket upgrade is carried both ways', async (t) => {
  const supplier = await rawSupplier((socket, request) => {
    const key = /sec-websocket-key: (\S+)/i.exec(request)![1]!
    const accept = createHash('sha1')
      .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest('base64')
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    )
    socket.removeAllListeners('data')
    socket.on('data', (chunk) => socket.write(`echo:${String(chunk)}`))
  })
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const text = await new Promise<string>((resolve) => {
    const socket = connect(proxy.port, '127.0.0.1')
    let seen = ''
    socket.on('data', (chunk) => {
      seen += chunk
      if (seen.endsWith('\r\n\r\n')) socket.write('ping')
      if (seen.includes('echo:ping')) resolve(seen)
    })
    socket.write(
      get(
        '/pass/acme/ws',
        'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n',
      ),
    )
  })
  t.match(text, /^HTTP\/1.1 101/)
})

t.test('an upgrade with a body is none, and ends nothing', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.end('plain'))
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
  for (const framing of [
    'Content-Length: 0\r\n',
    'Content-Length: 9\r\n',
    'Transfer-Encoding: chunked\r\n',
  ]) {
    const request = get('/pass/acme/ws', `${upgrade}${framing}`)
    const answer = await raw(proxy.port, [request, '4\r\nabcd\r\n0\r\n\r\n'])
    // Node.js before 24.9 cannot be asked to overhear it.
    t.ok(answer.body === 'plain' || answer.closed, framing)
  }
  t.equal((await raw(proxy.port, get('/pass/nobody/x'))).status, 404, 'the process lives')
})

t.test('an upgrade outside of /pass is 404', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.end())
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const answer = await raw(
    proxy.port,
    get('/other/acme', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'),
  )
  t.equal(answer.status, 404)
})

const faults: [string, Parameters<typeof rawSupplier>[0]][] = [
  ['a reset', (socket) => socket.resetAndDestroy()],
  ['garbage', (socket) => socket.end('nonsense\r\n\r\n')],
  [
    'a body longer than its length',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}{}{}'),
  ],
  [
    'a body shorter than its length',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}'),
  ],
  [
    'a control character in the reason phrase',
    (socket) => socket.write('HTTP/1.1 200 O\u0001K\r\nContent-Length: 2\r\n\r\n{}'),
  ],
  ['a status that is none', (socket) => socket.write('HTTP/1.1 099 OK\r\n\r\n')],
  [
    'an upgrade that nobody asked for',
    (socket) => socket.write('HTTP/1.1 101 OK\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
  ],
]
for (const [title, script] of faults)
  t.test(`${title} from the supplier's host ends that exchange alone`, async (t) => {
    const supplier = await rawSupplier(script)
    const proxy = await startProxy({
      acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
    })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const answer = await raw(proxy.port, get('/pass/acme/x'))
    t.ok(answer.closed || answer.status === 502 || answer.status === 200)
    t.equal((await raw(proxy.port, get('/pass/nobody/x'))).status, 404, 'the process lives')
  })

t.test('a caller that leaves cancels the upstream request', async (t) => {
  let arrived = () => {}
  const there = new Promise<void>((resolve) => {
    arrived = resolve
  })
  const supplier = await rawSupplier(() => arrived())
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const socket = connect(proxy.port, '127.0.0.1')
  socket.write(get('/pass/acme/x'))
  await there
  socket.destroy()
  while (supplier.aborted === 0) await new Promise((resolve) => setImmediate(resolve))
  t.pass('the upstream connection was closed')
})

const offer = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n'

t.test('a caller that leaves before its upgrade is answered cancels it', async (t) => {
  const supplier = await rawSupplier(() => {})
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  for (const leave of ['destroy', 'end', 'resetAndDestroy'] as const) {
    const socket = connect(proxy.port, '127.0.0.1').on('error', () => {})
    const before = supplier.requests.length
    socket.write(get('/pass/acme/x', offer))
    while (supplier.requests.length === before) await pause(2)
    const { aborted } = supplier
    socket[leave]()
    while (supplier.aborted === aborted) await pause(2)
    while ((await sample(proxy.registry, 'bidweir_connections')) > 0) await pause(2)
    t.pass(leave)
  }
})

t.test('what is said before an upgrade is answered is not lost', async (t) => {
  const supplier = await rawSupplier((socket) => {
    socket.removeAllListeners('data')
    socket.on('data', (chunk) => socket.write(`echo:${String(chunk)}`))
    const upgraded = 'HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
    setTimeout(() => socket.write(upgraded), 50)
  })
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const { bytes } = await raw(proxy.port, [`${get('/pass/acme/x', offer)}early`], (text) =>
    text.includes('echo:'),
  )
  t.match(bytes, /echo:early$/)
})

t.test('an upgrade that is declined brings the whole answer, and its own framing', async (t) => {
  const supplier = await rawSupplier((socket) =>
    socket.write(
      'HTTP/1.1 426 No\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=9\r\nX-UP: 1\r\n\r\n4\r\nbody\r\n0\r\n\r\n',
    ),
  )
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const answer = await raw(proxy.port, get('/pass/acme/x', offer), () => false)
  t.equal(answer.bytes, 'HTTP/1.1 426 No\r\nX-UP: 1\r\nConnection: close\r\n\r\nbody')
  t.ok(answer.closed)
})

t.test(
  "fields of an upgrade go as those of a bid: not the hop's, all of one name, where they are from",
  async (t) => {
    let seen = ''
    const supplier = await rawSupplier((socket, request) => {
      seen = request
      socket.write('HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n')
    })
    const proxy = await startProxy({
      acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
    })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const fields =
      'Connection: Upgrade, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: z\r\nUpgrade: websocket\r\nX-Two: 1\r\nX-Two: 2\r\nX-Forwarded-For: 9.9.9.9\r\n'
    await raw(proxy.port, get('/pass/acme/x', fields))
    t.match(seen, /x-two: 1\r\nx-two: 2\r\n/)
    t.match(seen, /x-forwarded-for: 127\.0\.0\.1\r\n/)
    t.match(seen, /\r\nupgrade: websocket\r\nconnection: Upgrade\r\n/)
    t.notMatch(seen, /x-hop|proxy-auth|9\.9\.9\.9/i)
  },
)

t.test('an offer of another protocol than the one asked for is no upgrade', async (t) => {
  const supplier = await rawSupplier((socket) =>
    socket.write(
      'HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 4\r\n\r\nbody',
    ),
  )
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const answer = await raw(proxy.port, get('/pass/acme/x', offer), () => false)
  t.equal(answer.status, 426)
  t.ok(answer.closed)
})

t.test(
  'a head of many fields comes whole, a 204 without a length, a foreign coding not at all',
  async (t) => {
    const many = Array.from({ length: 2500 }, (_, at) => `X-${at}: 1\r\n`).join('')
    let answer = ''
    const supplier = await rawSupplier((socket) => socket.write(answer))
    const proxy = await startProxy({
      acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
    })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    answer = `HTTP/1.1 200 OK\r\n${many}Content-Length: 2\r\n\r\nok`
    const big = await raw(proxy.port, get('/pass/acme/x'))
    t.match(big, { status: 200, body: 'ok', headers: { 'x-2499': '1', 'content-length': '2' } })
    answer = 'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n'
    const none = await raw(proxy.port, get('/pass/acme/x'))
    t.equal(none.status, 204)
    t.equal(none.headers['content-length'], undefined)
    answer = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'
    t.equal((await raw(proxy.port, get('/pass/acme/x'))).status, 502)
  },
)
