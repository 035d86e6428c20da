/** HTTP/2 to endpoints: streams share a connection, and the rules of HTTP/1.1 hold: deadline, replay, errors. */
import { once } from 'node:events'
import {
  constants,
  createSecureServer,
  createServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import t, { type Test } from 'tap'
import { authority } from '../../support/authority.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'

const partner = authority('Partner')
const skip = partner === null ? 'openssl not found' : false
const pair = partner?.issue('127.0.0.1')

interface Seen {
  headers: Record<string, unknown>
  body: string
}

type Answer = (stream: ServerHttp2Stream, seen: Seen, nth: number) => void

/** An endpoint of HTTP/2, over TLS or by prior knowledge; over TLS it may speak HTTP/1.1 as well, or alone. */
async function endpoint(t: Test, answer: Answer, over: 'tls' | 'plain', settings = {}) {
  const requests: Seen[] = []
  const sessions: ServerHttp2Session[] = []
  const sockets: Socket[] = []
  const server: Http2Server =
    over === 'plain'
      ? createServer({ settings })
      : (createSecureServer({ ...pair!, settings }) as unknown as Http2Server)
  server.on('connection', (socket: Socket) => sockets.push(socket))
  server.on('session', (session) => {
    sessions.push(session)
    session.on('error', () => {})
  })
  server.on('stream', (stream, headers) => {
    let body = ''
    stream.on('error', () => {})
    stream.on('data', (chunk) => {
      body += chunk
    })
    stream.on('end', () => {
      const seen = { headers: { ...headers }, body }
      requests.push(seen)
      answer(stream as ServerHttp2Stream, seen, requests.length)
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const session of sessions) session.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `${over === 'plain' ? 'http' : 'https'}://127.0.0.1:${port}/bid?v=2`,
    requests,
    sessions,
    sockets,
  }
}

const ok: Answer = (stream, { body }) => {
  const answer = `{"echo":${body}}`
  stream.respond({
    ...{ ':status': 200, 'content-type': 'application/json', 'x-own': ['a', 'b'] },
    'content-length': answer.length,
  })
  stream.end(answer)
}

const tls = () => (partner === null ? {} : { tls: { ca: partner.cert } })

for (const lane of ['fast', 'general'] as const)
  for (const over of ['tls', 'plain'] as const)
    t.test(`${lane} lane: requests over ${over} share a connection`, { skip }, async (t) => {
      const { url, requests, sessions } = await endpoint(t, ok, over)
      const proxy = await startProxy(
        {
          acme: { endpoints: [url], protocol: 'h2', headers: { set: { 'x-key': 'k' } }, ...tls() },
        },
        { lane },
      )
      t.teardown(() => proxy.close())
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          raw(proxy.port, post('/bid/acme?caller=1', `{"id":"${n}"}`, 'X-Sent: yes\r\n')),
        ),
      )
      t.same(new Set(answers.map(({ status }) => status)), new Set([200]))
      t.same(
        answers.map(({ body }) => body),
        answers.map((_, n) => `{"echo":{"id":"${n}"}}`),
      )
      t.match(answers[0]!.head, /x-own: a\r\nx-own: b/i, 'repeated headers are kept')
      t.match(requests[0]!.headers, {
        ...{ ':method': 'POST', ':path': '/bid?v=2&caller=1', ':authority': new URL(url).host },
        ...{ 'x-sent': 'yes', 'x-key': 'k', 'content-type': 'application/json' },
      })
      t.equal(requests[0]!.headers['host'], undefined)
      const before = sessions.length
      for (let n = 0; n < 10; n++) await raw(proxy.port, post('/bid/acme', '{}'))
      t.equal(sessions.length, before, 'and go on sharing it')
      t.ok(before <= 2, `${before} connections for 40 requests at once`)
      t.equal(proxy.proxy.suppliers.get('acme')!.endpoints.all[0]!.pool.open, 0)
      t.same(proxy.lines, [])
    })

t.test(
  'a deadline ends the stream, and the session serves the next request',
  { skip },
  async (t) => {
    let ended: Promise<unknown> = Promise.resolve()
    const { url, sessions } = await endpoint(
      t,
      (stream, seen, nth) => {
        if (nth === 1) ended = once(stream, 'close')
        else ok(stream, seen, nth)
      },
      'plain',
    )
    const route = { endpoints: [url], protocol: 'h2', timeout: '300ms', onFailure: 'status' }
    const proxy = await startProxy({ acme: route })
    t.teardown(() => proxy.close())
    t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 504)
    await ended
    t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 200)
    t.equal(sessions.length, 1)
  },
)

t.test('a stream that is reset is upstream_error, and is not sent again', { skip }, async (t) => {
  const { url, requests } = await endpoint(
    t,
    (stream, seen, nth) => (nth === 2 ? stream.close(2) : ok(stream, seen, nth)),
    'plain',
  )
  const proxy = await startProxy({
    acme: { endpoints: [url], protocol: 'h2', onFailure: 'status' },
  })
  t.teardown(() => proxy.close())
  const statuses = []
  for (let n = 0; n < 3; n++) statuses.push((await raw(proxy.port, post('/bid/acme', '{}'))).status)
  t.same(statuses, [200, 502, 200])
  t.equal(requests.length, 3)
  t.equal(await sample(proxy.registry, 'bidweir_replays_total{ssp="acme"}'), 0)
})

const cuts: [title: string, cut: (stream: ServerHttp2Stream, socket: Socket) => void][] = [
  [
    'a GOAWAY and the end of the connection',
    (stream, socket) => {
      stream.session!.goaway(constants.NGHTTP2_NO_ERROR)
      setImmediate(() => socket.end())
    },
  ],
  [
    'a reset without an error',
    ({ id }, socket) => {
      const frame = Buffer.from('00000403000000000000000000', 'hex')
      frame.writeUInt32BE(id!, 5)
      socket.write(frame)
    },
  ],
  ['the end of the connection', (_stream, socket) => socket.destroy()],
]
for (const [title, cut] of cuts)
  t.test(`a response that ${title} cuts is not whole`, { skip }, async (t) => {
    const text = '{"seatbid":[]}'
    const { url, sockets } = await endpoint(
      t,
      (stream, _seen, nth) => {
        stream.respond(nth === 1 ? { 'content-length': text.length } : {})
        stream.write(text.slice(0, 5), () => cut(stream, sockets.at(-1)!))
      },
      'plain',
    )
    const route = { endpoints: [url], protocol: 'h2', onFailure: 'status', timeout: '20s' }
    const proxy = await startProxy({ acme: route })
    t.teardown(() => proxy.close())
    const bid = () => raw(proxy.port, post('/bid/acme', '{}'))
    t.match(await bid(), {
      status: 502,
      headers: { 'x-bidweir-reason': 'upstream_error' },
      body: '',
    })
    // Its beginning has been sent: the connection ends without the last chunk.
    const { body, headers } = await bid()
    t.equal(headers['transfer-encoding'], 'chunked')
    t.notMatch(body, /0\r\n\r\n$/)
    const outcome = 'bidweir_requests_total{ssp="acme",outcome="upstream_error"}'
    t.equal(await sample(proxy.registry, outcome), 2)
  })

t.test(
  'responses with trailers, without a body, and with many fields are whole',
  { skip },
  async (t) => {
    const answers: ((stream: ServerHttp2Stream) => void)[] = [
      (stream) => {
        stream.respond({ ':status': 200 }, { waitForTrailers: true })
        stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': '1' }))
        stream.end('with trailers')
      },
      (stream) => stream.respond({ ':status': 200 }, { endStream: true }),
      (stream) => {
        stream.respond(Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`x-${n}`, 'y'])))
        stream.end('with fields')
      },
    ]
    const { url } = await endpoint(t, (stream, _seen, nth) => answers[nth - 1]!(stream), 'plain')
    const route = { endpoints: [url], protocol: 'h2', timeout: '20s' }
    const proxy = await startProxy({ acme: route })
    t.teardown(() => proxy.close())
    const bid = () => raw(proxy.port, post('/bid/acme', '{}'))
    t.match(await bid(), { status: 200, body: /with trailers\r\n0\r\n\r\n$/ })
    t.match(await bid(), { status: 200, body: /^0\r\n\r\n$/ })
    t.match(await bid(), {
      status: 200,
      body: 'with fields',
      headers: { 'x-0': 'y', 'x-999': 'y' },
    })
  },
)

t.test('a stream that the endpoint refuses is sent once more', { skip }, async (t) => {
  const { url } = await endpoint(
    t,
    (stream, seen, nth) => (nth === 1 ? stream.close(7) : ok(stream, seen, nth)),
    'plain',
  )
  const proxy = await startProxy({ acme: { endpoints: [url], protocol: 'h2' } })
  t.teardown(() => proxy.close())
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 200)
  t.equal(await sample(proxy.registry, 'bidweir_replays_total{ssp="acme"}'), 1)
})

t.test(
  'after a GOAWAY streams complete, and requests go to another session',
  { skip },
  async (t) => {
    const held: [ServerHttp2Stream, Seen][] = []
    const { url, sessions, requests } = await endpoint(
      t,
      (stream, seen, nth) => void (nth === 2 ? held.push([stream, seen]) : ok(stream, seen, nth)),
      'plain',
    )
    const proxy = await startProxy({ acme: { endpoints: [url], protocol: 'h2' } })
    t.teardown(() => proxy.close())
    const bid = () => raw(proxy.port, post('/bid/acme', '{}'))
    t.equal((await bid()).status, 200)
    const waiting = bid()
    await until(() => held.length === 1)
    sessions[0]!.close()
    await until(async () => {
      t.equal((await bid()).status, 200)
      return sessions.length === 2
    })
    const before = requests.length
    ok(held[0]![0], held[0]![1], 0)
    t.equal((await waiting).status, 200, 'the one in flight has its response')
    t.equal(requests.length, before, 'and is sent once')
  },
)

t.test('a connection that is lost is retried once, if it was used before', { skip }, async (t) => {
  const { url, sessions } = await endpoint(
    t,
    (stream, seen, nth) => (nth === 2 ? stream.session!.destroy() : ok(stream, seen, nth)),
    'plain',
  )
  const route = { endpoints: [url], protocol: 'h2', onFailure: 'status' }
  const proxy = await startProxy({ acme: route })
  t.teardown(() => proxy.close())
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 200)
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 200)
  t.equal(sessions.length, 2)
  t.equal(await sample(proxy.registry, 'bidweir_replays_total{ssp="acme"}'), 1)
})

t.test('more streams than the endpoint permits use more connections', { skip }, async (t) => {
  const streams: [ServerHttp2Stream, Seen][] = []
  const { url, sessions } = await endpoint(
    t,
    (stream, seen) => void streams.push([stream, seen]),
    'plain',
    { maxConcurrentStreams: 2 },
  )
  const proxy = await startProxy({ acme: { endpoints: [url], protocol: 'h2', maxInFlight: 50 } })
  t.teardown(() => proxy.close())
  const first = raw(proxy.port, post('/bid/acme', '{}'))
  await until(() => streams.length === 1)
  const answers = [
    first,
    ...Array.from({ length: 5 }, () => raw(proxy.port, post('/bid/acme', '{}'))),
  ]
  await until(() => streams.length === 6)
  t.ok(sessions.length >= 3, `${sessions.length}`)
  for (const [stream, seen] of streams) ok(stream, seen, 0)
  for (const answer of answers) t.equal((await answer).status, 200)
})

t.test('auto uses what the endpoint chooses', { skip }, async (t) => {
  const { url, sessions } = await endpoint(t, ok, 'tls')
  process.env['TEST_TRANSPORT'] = 'tls'
  const old = await httpSupplier((_request, response) => response.end('{}'))
  delete process.env['TEST_TRANSPORT']
  const plain = await httpSupplier((_request, response) => response.end('{}'))
  const proxy = await startProxy({
    both: { endpoints: [url], protocol: 'auto', ...tls() },
    old: { endpoints: [old.url], protocol: 'auto' },
    plain: { endpoints: [plain.url], protocol: 'auto' },
    wrong: { endpoints: [old.url], protocol: 'h2', onFailure: 'status' },
  })
  t.teardown(() => Promise.all([proxy, old, plain].map((server) => server.close())))
  for (const id of ['both', 'old', 'plain'])
    for (let n = 0; n < 4; n++)
      t.equal((await raw(proxy.port, post(`/bid/${id}`, '{}'))).status, 200, id)
  t.equal(sessions.length, 1)
  t.equal(old.requests.length, 4)
  t.ok(old.connections <= 2, 'the first handshake asks, the second connection is kept')
  t.equal((await raw(proxy.port, post('/bid/wrong', '{}'))).status, 502)
})
