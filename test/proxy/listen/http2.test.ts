/** HTTP/2 of callers: by ALPN and with prior knowledge, with the contract of HTTP/1.1, and bounded. */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createServer,
} from 'node:http2'
import { type AddressInfo, connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { proxySchema } from '../../../proxy/config.ts'
import { isPreface } from '../../../proxy/listen/http2.ts'
import { certificate } from '../../support/certificate.ts'
import { h2specAbsent, h2specFailures } from '../../support/h2spec.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'

const pair = certificate('127.0.0.1')
const skip = pair === null ? 'openssl not found' : false

interface Received {
  status: number
  reason: string | undefined
  headers: Record<string, unknown>
  body: string
  code: number
}

function receive(stream: ClientHttp2Stream): Promise<Received> {
  return new Promise((resolve) => {
    let body = ''
    let headers: Record<string, unknown> = {}
    stream.on('response', (response) => {
      headers = response
    })
    stream.on('data', (chunk: Buffer) => {
      body += chunk.toString('latin1')
    })
    stream.on('error', () => {})
    stream.on('close', () =>
      resolve({
        ...{ status: Number(headers[':status'] ?? 0), headers, body },
        reason: headers['x-bidweir-reason'] as string | undefined,
        code: stream.rstCode ?? 0,
      }),
    )
  })
}

const ask = (session: ClientHttp2Session, path: string, body: string | Buffer, headers = {}) => {
  const stream = session.request({ ':method': 'POST', ':path': path, ...headers })
  stream.end(body)
  return receive(stream)
}

interface WorldOptions {
  tls?: boolean
  lane?: 'fast' | 'general'
  http2?: object
  more?: object
}

async function world(t: Test, { tls = false, lane = 'fast', http2 = {}, more = {} }: WorldOptions) {
  const waiting: (() => void)[] = []
  const gone: string[] = []
  const seen: { url: string; headers: NodeJS.Dict<string | string[]>; body: string }[] = []
  const supplier = await httpSupplier((request, response, body) => {
    seen.push({ url: request.url!, headers: request.headers, body })
    response.on('close', () => {
      if (!response.writableEnded) gone.push(request.url!)
    })
    if (body.includes('never')) return
    if (body.includes('wait')) return void waiting.push(() => response.end('late'))
    if (body.includes('none')) return void response.writeHead(204).end()
    response.writeHead(200, [
      ...['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'X-Two', '1', 'X-Two', '2'],
      ...['Connection', 'X-Hop', 'X-Hop', 'no', 'Content-Type', 'application/json'],
    ])
    response.end(body.includes('long') ? 'x'.repeat(300_000) : `{"got":${body.length}}`)
  })
  const endpoints = [supplier.url]
  const proxy = await startProxy(
    {
      acme: { endpoints, maxInFlight: 200 },
      late: { endpoints, timeout: '60ms' },
      status: { endpoints, timeout: '60ms', onFailure: 'status' },
      closed: { endpoints, callers: { headers: { 'x-key': 'a' } } },
      passing: { endpoints, passThrough: new URL(supplier.url).origin },
    },
    {
      lane,
      proxy: {
        http2: { enabled: true, ...http2 },
        ...(tls ? { tls: pair! } : {}),
        ...more,
      },
    },
  )
  const sessions: ClientHttp2Session[] = []
  t.teardown(async () => {
    for (const session of sessions) session.destroy()
    await proxy.close()
    await supplier.close()
  })
  const open = (): ClientHttp2Session => {
    const scheme = tls ? 'https' : 'http'
    const session = connect(`${scheme}://127.0.0.1:${proxy.port}`, { rejectUnauthorized: false })
    session.on('error', () => {})
    sessions.push(session)
    return session
  }
  return { proxy, open, waiting, gone, seen }
}

const roads = [
  { title: 'TLS, fast lane', tls: true, lane: 'fast' },
  { title: 'TLS, general lane', tls: true, lane: 'general' },
  { title: 'prior knowledge, fast lane', tls: false, lane: 'fast' },
  { title: 'prior knowledge, general lane', tls: false, lane: 'general' },
] as const

for (const { title, tls, lane } of roads)
  t.test(`${title}: statuses, headers and bodies are those of HTTP/1.1`, { skip }, async (t) => {
    const { proxy, open, seen } = await world(t, { tls, lane })
    const session = open()
    const bid = await ask(session, '/bid/acme?a=1', '{"id":"1"}', {
      'x-mine': 'ÿ',
      cookie: ['a=1', 'b=2'],
    })
    t.match(bid, { status: 200, body: '{"got":10}', code: 0 })
    t.match(bid.headers, { 'set-cookie': ['a=1', 'b=2'], 'x-two': '1, 2' })
    t.notOk('x-hop' in bid.headers || 'connection' in bid.headers)
    const { port } = proxy
    t.match(seen[0], { body: '{"id":"1"}', headers: { 'x-mine': 'ÿ', cookie: 'a=1; b=2' } })
    t.match(seen[0]!.headers, {
      'x-forwarded-host': `127.0.0.1:${port}`,
      'x-forwarded-proto': tls ? 'https' : 'http',
    })
    t.match(seen[0]!.url, /\?a=1$/)
    t.match(await ask(session, '/bid/acme', 'none'), { status: 204, body: '' })
    t.match(await ask(session, '/bid/acme', 'long'), { status: 200, body: /^x{300000}$/ })
    t.match(await ask(session, '/bid/nobody', '{}'), { status: 404 })
    t.match(await ask(session, '/other', '{}'), { status: 404 })
    t.match(await ask(session, '/bid/closed', '{}'), { status: 403 })
    const get = await receive(session.request({ ':path': '/bid/acme' }))
    t.match(get, { status: 405, headers: { allow: 'POST' } })
    const large = Buffer.alloc(2_000_000)
    t.match(await ask(session, '/bid/acme', large), { status: 413 })
    t.match(await ask(session, '/bid/acme', large, { 'content-length': '2000000' }), {
      status: 413,
    })
    t.match(await ask(session, '/bid/late', 'never'), { status: 204, reason: 'timeout' })
    t.match(await ask(session, '/bid/status', 'never'), { status: 504, reason: 'timeout' })
    t.match(await ask(session, '/bid/acme', '{"tmax":60,"never":1}'), { reason: 'timeout' })
    t.match(await ask(session, '/pass/passing/x', ''), {
      status: 0,
      code: constants.NGHTTP2_HTTP_1_1_REQUIRED,
    })
    const outcomes = async (ssp: string, outcome: string) =>
      sample(proxy.registry, `bidweir_requests_total{ssp="${ssp}",outcome="${outcome}"}`)
    t.same([await outcomes('acme', 'answer'), await outcomes('acme', 'refused')], [2, 3])
    t.equal(await sample(proxy.registry, 'bidweir_http2_connections'), 1)
    session.close()
    const h1 = await raw(port, post('/bid/acme', '{}'), undefined, () =>
      tls
        ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
        : connectTcp(port, '127.0.0.1'),
    )
    t.equal(h1.status, 200, 'HTTP/1.1 on the same port')
    await until(async () => (await sample(proxy.registry, 'bidweir_http2_connections')) === 0)
  })

t.test('streams of a connection are served at once, up to maxStreams', async (t) => {
  const { open, waiting } = await world(t, { http2: { maxStreams: 50 } })
  const session = open()
  await new Promise((resolve) => session.once('remoteSettings', resolve))
  t.equal(session.remoteSettings.maxConcurrentStreams, 50)
  const answers = Array.from({ length: 50 }, (_, n) => ask(session, '/bid/acme', `wait${n}`))
  await until(() => waiting.length === 50)
  for (const answer of waiting) answer()
  t.ok((await Promise.all(answers)).every(({ status, body }) => status === 200 && body === 'late'))
})

t.test('requests that are refused at once get their responses', async (t) => {
  const { proxy, open, waiting } = await world(t, { more: { maxInFlight: 1 } })
  const session = open()
  const served = ask(session, '/bid/acme', 'wait')
  await until(() => waiting.length === 1)
  // In one write, so that the ends of the requests arrive with their beginnings.
  const refused = await Promise.all(
    Array.from({ length: 50 }, () => ask(session, '/bid/acme', '{}')),
  )
  t.same(
    refused.map(({ status, reason, code }) => ({ status, reason, code })),
    Array(50).fill({ status: 204, reason: 'overload', code: constants.NGHTTP2_NO_ERROR }),
  )
  waiting[0]!()
  t.match(await served, { status: 200, body: 'late' })
  t.equal(await sample(proxy.registry, 'bidweir_requests_in_flight{ssp="acme"}'), 0)
})

t.test('a stream whose request does not end is closed after its response', async (t) => {
  const { open } = await world(t, { more: { headTimeout: '50ms' } })
  const stream = open().request({ ':method': 'POST', ':path': '/bid/nobody' })
  stream.write('{')
  t.match(await receive(stream), { status: 404, code: constants.NGHTTP2_NO_ERROR })
})

t.test('a stream that its caller resets is cancelled at the supplier', async (t) => {
  const { open, gone, seen, proxy } = await world(t, {})
  const session = open()
  const stream = session.request({ ':method': 'POST', ':path': '/bid/acme' }).on('error', () => {})
  stream.end('never')
  await until(() => seen.length === 1)
  stream.close(constants.NGHTTP2_CANCEL)
  await until(() => gone.length === 1)
  const outcome = 'bidweir_requests_total{ssp="acme",outcome="client_abort"}'
  await until(async () => (await sample(proxy.registry, outcome)) === 1)
  t.match(await ask(session, '/bid/acme', '{}'), { status: 200 }, 'the connection goes on')
})

t.test('a caller that opens and resets streams without end is closed (rapid reset)', async (t) => {
  const { open, proxy } = await world(t, {})
  const session = open()
  const ended = new Promise<number>((resolve) => session.once('goaway', resolve))
  let over = false
  session.once('close', () => {
    over = true
  })
  while (!over) {
    for (let n = 0; n < 50 && !session.closed && !session.destroyed; n++) {
      const stream = session.request({ ':method': 'POST', ':path': '/bid/acme' })
      stream.on('error', () => {})
      stream.close(constants.NGHTTP2_CANCEL)
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(await ended, constants.NGHTTP2_INTERNAL_ERROR)
  t.match(await ask(open(), '/bid/acme', '{}'), { status: 200 }, 'others are served')
  t.equal(await sample(proxy.registry, 'bidweir_requests_in_flight{ssp="acme"}'), 0)
})

t.test('a drain sends GOAWAY, and answers the requests in flight', async (t) => {
  const { open, waiting, proxy } = await world(t, {})
  const session = open()
  const inFlight = ask(session, '/bid/acme', 'wait')
  const idle = open()
  t.match(await ask(idle, '/bid/acme', '{}'), { status: 200 })
  await until(() => waiting.length === 1)
  const closed = Promise.all(
    [session, idle].map((connection) => new Promise((r) => connection.once('goaway', r))),
  )
  proxy.proxy.drain()
  await closed
  waiting[0]!()
  t.match(await inFlight, { status: 200, body: 'late' })
  await until(() => session.destroyed && idle.destroyed)
  await proxy.close()
})

t.test('a connection that is too old gets GOAWAY after its next request', async (t) => {
  const { open } = await world(t, { more: { maxConnectionAge: '0s' } })
  const session = open()
  const goaway = new Promise((resolve) => session.once('goaway', resolve))
  t.match(await ask(session, '/bid/acme', '{}'), { status: 200 })
  await goaway
})

t.test('a header list that is too large ends its stream, and no other', async (t) => {
  const { open } = await world(t, {})
  const session = open()
  const large = Object.fromEntries(
    Array.from({ length: 300 }, (_, n) => [`x-${n}`, 'y'.repeat(300)]),
  )
  const { status } = await ask(session, '/bid/acme', '{}', large)
  t.notOk(status === 200, `status ${status}`)
  t.match(await ask(open(), '/bid/acme', '{}'), { status: 200 })
})

t.test('the preface may come in pieces, and what only begins like it is HTTP/1.1', async (t) => {
  const { proxy } = await world(t, {})
  const socket = connectTcp(proxy.port, '127.0.0.1').setNoDelay(true)
  t.teardown(() => socket.destroy())
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  const settings = Buffer.from('000000040000000000', 'hex')
  const bytes = Buffer.concat([preface, settings])
  const answered = new Promise<Buffer>((resolve) => socket.once('data', resolve))
  for (const byte of bytes) {
    socket.write(Buffer.of(byte))
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal((await answered)[3], 4, 'a SETTINGS frame')
  for (const [text, expected] of [
    ['P', null],
    ['PRI * HTTP/2.0', null],
    ['POST', false],
    ['', null],
  ] as const)
    t.equal(isPreface(Buffer.from(text)), expected, text)
  t.equal(isPreface(bytes), true)
  const { port } = proxy
  const slow = connectTcp(port, '127.0.0.1').setNoDelay(true)
  const parts = post('/bid/acme', '{}')
  slow.write(parts.subarray(0, 1))
  const answer = raw(port, parts.subarray(1), undefined, () => slow)
  t.equal((await answer).status, 200)
})

t.test(
  'without http2 the preface is refused, and TLS offers HTTP/1.1 alone',
  { skip },
  async (t) => {
    const { proxy, open } = await world(t, { http2: { enabled: false }, tls: true })
    const { port } = proxy
    const offered = await new Promise<string | false>((resolve) => {
      const socket = connectTls(
        { port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] },
        () => {
          resolve(socket.alpnProtocol ?? false)
          socket.destroy()
        },
      )
    })
    t.equal(offered, 'http/1.1')
    proxy.proxy.configure(
      proxySchema.parse({ listen: '127.0.0.1:0', tls: pair!, http2: { enabled: true } }),
    )
    t.match(await ask(open(), '/bid/acme', '{}'), { status: 200 }, 'a reload switches it on')
  },
)

t.test(
  'h2spec finds no fault that the HTTP/2 of Node.js does not have',
  { skip: h2specAbsent },
  async (t) => {
    const { proxy } = await world(t, {})
    const plain = createServer((request, response) => {
      request.resume().on('end', () => response.end('x'.repeat(113)))
    })
    t.teardown(() => plain.close())
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
    const ofNode = await h2specFailures((plain.address() as AddressInfo).port, '/bid/acme')
    const known = new Set([
      ...ofNode,
      // On this port it is a malformed request of HTTP/1.1, which is answered 400.
      '2: Sends invalid connection preface',
    ])
    const faults = async () =>
      (await h2specFailures(proxy.port, '/bid/acme')).filter((title) => !known.has(title))
    const first = await faults()
    // These send a second frame after a complete request. Where the response was faster than that frame, the stream is
    // closed, not half closed: cases 11 and 12, in which the server of Node.js fails. Each must pass in one of a few runs.
    const racing = [
      '5: half closed (remote): Sends a DATA frame',
      '6: half closed (remote): Sends a HEADERS frame',
      '2: Sends a DATA frame on the stream that is not in "open" or "half-closed (local)" state',
    ]
    t.same(
      first.filter((title) => !racing.includes(title)),
      [],
    )
    let failed = first.filter((title) => racing.includes(title))
    for (let run = 1; run < 5 && failed.length > 0; run++) {
      t.comment(failed)
      const later = await faults()
      failed = failed.filter((title) => later.includes(title))
    }
    t.same(failed, [])
  },
)
