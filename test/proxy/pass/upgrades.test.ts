/** Upgrades through `/pass/…`: forwarded both ways, and closed when either side closes. */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import t from 'tap'
import { get, passTo } from '../../support/pass.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { raw } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'

const offer = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n'

/** Node.js before 24.9 cannot be asked to ignore an offer: it closes. */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const ignores = major > 24 || (major === 24 && minor >= 9)

t.test('a WebSocket upgrade is forwarded in both directions', async (t) => {
  const { proxy } = await passTo(t, (socket, request) => {
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

t.test('an upgrade with a body is refused, and no other connection ends', async (t) => {
  const { proxy } = await passTo(
    t,
    await httpSupplier((_request, response) => response.end('plain')),
  )
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
  for (const framing of [
    'Content-Length: 0\r\n',
    'Content-Length: 9\r\n',
    'Transfer-Encoding: chunked\r\n',
  ]) {
    const request = get('/pass/acme/ws', `${upgrade}${framing}`)
    const answer = await raw(proxy.port, [request, '4\r\nabcd\r\n0\r\n\r\n'])
    if (ignores) t.equal(answer.body, 'plain', framing)
    else t.ok(answer.body === 'plain' || answer.closed, framing)
  }
  t.equal((await raw(proxy.port, get('/pass/nobody/x'))).status, 404, 'the process goes on')
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

t.test('a caller that leaves before its upgrade is answered cancels it', async (t) => {
  const { proxy, supplier } = await passTo(t, () => {})
  for (const leave of ['destroy', 'end', 'resetAndDestroy'] as const) {
    const socket = connect(proxy.port, '127.0.0.1').on('error', () => {})
    const before = supplier.requests.length
    socket.write(get('/pass/acme/x', offer))
    await until(() => supplier.requests.length > before)
    const { aborted } = supplier
    socket[leave]()
    await until(() => supplier.aborted > aborted)
    await until(async () => (await sample(proxy.registry, 'bidweir_connections')) === 0)
    t.equal(supplier.aborted, aborted + 1, leave)
  }
})

t.test('bytes that arrive before an upgrade is answered are not lost', async (t) => {
  const { proxy } = await passTo(t, (socket) => {
    socket.removeAllListeners('data')
    socket.on('data', (chunk) => socket.write(`echo:${String(chunk)}`))
    const upgraded = 'HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
    setTimeout(() => socket.write(upgraded), 50)
  })
  const { bytes } = await raw(proxy.port, [`${get('/pass/acme/x', offer)}early`], (text) =>
    text.includes('echo:'),
  )
  t.match(bytes, /echo:early$/)
})

t.test('an upgrade that is declined brings the whole answer, and its own framing', async (t) => {
  const { proxy } = await passTo(t, (socket) =>
    socket.write(
      'HTTP/1.1 426 No\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=9\r\nX-UP: 1\r\n\r\n4\r\nbody\r\n0\r\n\r\n',
    ),
  )
  const answer = await raw(proxy.port, get('/pass/acme/x', offer), () => false)
  t.equal(answer.bytes, 'HTTP/1.1 426 No\r\nX-UP: 1\r\nConnection: close\r\n\r\nbody')
  t.ok(answer.closed)
})

t.test(
  "fields of an upgrade go as those of a bid: not the hop's, all of one name, where they are from",
  async (t) => {
    let seen = ''
    const { proxy } = await passTo(t, (socket, request) => {
      seen = request
      socket.write('HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n')
    })
    const fields =
      'Connection: Upgrade, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: z\r\nUpgrade: websocket\r\nX-Two: 1\r\nX-Two: 2\r\nConstructor: 3\r\n__proto__: 4\r\nX-Forwarded-For: 9.9.9.9\r\n'
    await raw(proxy.port, get('/pass/acme/x', fields))
    t.match(seen, /x-two: 1\r\nx-two: 2\r\n/)
    t.match(seen, /\r\nconstructor: 3\r\n/, 'a name that every object has')
    t.match(seen, /x-forwarded-for: 127\.0\.0\.1\r\n/)
    t.match(seen, /\r\nupgrade: websocket\r\nconnection: Upgrade\r\n/)
    t.notMatch(seen, /x-hop|proxy-auth|9\.9\.9\.9/i)
  },
)

t.test('an offer of another protocol than the one asked for is no upgrade', async (t) => {
  const { proxy } = await passTo(t, (socket) =>
    socket.write(
      'HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 4\r\n\r\nbody',
    ),
  )
  const answer = await raw(proxy.port, get('/pass/acme/x', offer), () => false)
  t.equal(answer.status, 426)
  t.ok(answer.closed)
})

t.test('the path of an upgrade goes through byte for byte', async (t) => {
  let seen = ''
  const { proxy } = await passTo(t, (socket, request) => {
    seen = request
    socket.write('HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n')
  })
  for (const path of [
    '//x//y?a=//b',
    '/a/../b%2e?c=\\&d',
    '//a@[x/',
    '//u@h:99999999/',
    '/{|}^`"',
  ]) {
    const { status } = await raw(proxy.port, get(`/pass/acme${path}`, offer))
    t.equal(status, 400, path)
    t.equal(seen.split(' ')[1], path)
  }
  await raw(proxy.port, get('/pass/acme?q', offer))
  t.equal(seen.split(' ')[1], '/?q')
})
