import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { get, origin, passTo } from '../../support/pass.ts'
import { startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier, rawSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'

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
  const trace = await raw(proxy.port, 'TRACE /pass/acme/x HTTP/1.1\r\nHost: a\r\n\r\n')
  t.match(trace, { status: 405, headers: { allow: /^GET, / } })
  t.match(JSON.parse(trace.body), { code: 'trace' })
  t.equal(supplier.requests.length, 2, 'a TRACE shows nobody what was added on the way')
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

const none = { status: 502, closed: false, headers: { 'x-bidweir-reason': 'upstream_error' } }
const faults: [string, Parameters<typeof rawSupplier>[0], object][] = [
  ['a reset', (socket) => socket.resetAndDestroy(), none],
  ['garbage', (socket) => socket.end('nonsense\r\n\r\n'), none],
  [
    'a body longer than its length',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}{}{}'),
    { status: 200, body: '{}', closed: false },
  ],
  [
    'a body shorter than its length',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}'),
    { status: 200, body: '{}', closed: true },
  ],
  [
    'a control character in the reason phrase',
    (socket) => socket.write('HTTP/1.1 200 O\u0001K\r\nContent-Length: 2\r\n\r\n{}'),
    { head: /^HTTP\/1\.1 200 \r\n/, body: '{}', closed: false },
  ],
  [
    'HTTP/1.0 with chunks',
    (socket) =>
      socket.end('HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'),
    none,
  ],
  [
    'another version',
    (socket) => socket.write('HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok'),
    none,
  ],
  ['a status below 100', (socket) => socket.write('HTTP/1.1 099 OK\r\n\r\n'), none],
  [
    'an upgrade that nobody asked for',
    (socket) => socket.write('HTTP/1.1 101 OK\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
    none,
  ],
]
for (const [title, script, wanted] of faults)
  t.test(`${title} from the supplier's host ends that exchange alone`, async (t) => {
    const { proxy } = await passTo(t, script)
    t.match(await raw(proxy.port, get('/pass/acme/x')), wanted)
    t.equal((await raw(proxy.port, get('/pass/nobody/x'))).status, 404, 'the process goes on')
  })

t.test('a caller that leaves cancels the upstream request', async (t) => {
  let arrived = () => {}
  const there = new Promise<void>((resolve) => {
    arrived = resolve
  })
  const { proxy, supplier } = await passTo(t, () => arrived())
  const socket = connect(proxy.port, '127.0.0.1')
  socket.write(get('/pass/acme/x'))
  await there
  socket.destroy()
  await until(() => supplier.aborted > 0)
  t.equal(supplier.aborted, 1, 'the upstream connection was closed')
})

t.test(
  'a head of many fields comes whole, a 204 without a length, a foreign coding not at all',
  async (t) => {
    const many = Array.from({ length: 2500 }, (_, index) => `X-${index}: 1\r\n`).join('')
    let answer = ''
    const { proxy } = await passTo(t, (socket) => socket.write(answer))
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

t.test('a body that is not wanted any more does not hold up the next request', async (t) => {
  const small = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
  const hosts: Record<string, [statuses: number[], serve: (socket: Socket) => void]> = {
    'a reset': [[502, 200], (socket) => socket.resetAndDestroy()],
    'an early response': [[200, 200], (socket) => socket.pause().write(small)],
    'an early response, and a close': [[200, 200], (socket) => socket.pause().end(small)],
  }
  for (const [title, [statuses, serve]] of Object.entries(hosts)) {
    const host = createServer((socket) =>
      socket
        .on('error', () => {})
        .once('data', (chunk) => {
          if (chunk.toString('latin1', 0, 4) === 'POST') serve(socket)
          else socket.write(small)
        }),
    )
    await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
    const passThrough = `http://127.0.0.1:${(host.address() as AddressInfo).port}`
    const proxy = await startProxy(
      { acme: { endpoints: [], passThrough } },
      { proxy: { headTimeout: '60s' } },
    )
    // More than any buffer between the two takes.
    const upload = post('/pass/acme/upload', Buffer.alloc(8_000_000))
    const all = (text: string) => text.match(/HTTP\/1/g)?.length === 2 && text.endsWith('ok')
    const { bytes } = await raw(proxy.port, [upload, get('/pass/acme/x')], all)
    const got = [...bytes.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))
    t.same(got, statuses, title)
    await proxy.close()
    host.close()
  }
})
