/** Callers that violate the protocol: refused, closed and counted; other callers are not affected. */
import t from 'tap'
import { idleEngine, sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier, rawSupplier } from '../../support/supplier.ts'
import { callTo } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const body = (length: number) => `Content-Length: ${length}\r\n\r\n${'x'.repeat(length)}`

const attacks: [string, string, number][] = [
  ['two Host lines', `POST /bid/acme HTTP/1.1\r\nHost: a\r\nHost: b\r\n${body(2)}`, 400],
  ['a Host of two words', `POST /bid/acme HTTP/1.1\r\nHost: a b\r\n${body(2)}`, 400],
  ['a Host with a path', `POST /bid/acme HTTP/1.1\r\nHost: a/b\r\n${body(2)}`, 400],
  ['no Host line', `POST /bid/acme HTTP/1.1\r\n${body(2)}`, 400],
  [
    'HTTP/1.0 with Transfer-Encoding',
    'POST /bid/acme HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  [
    'Content-Length beside Transfer-Encoding',
    'POST /bid/acme HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  [
    'two Content-Lengths',
    'POST /bid/acme HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx',
    400,
  ],
  [
    'a negative Content-Length',
    'POST /bid/acme HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n',
    400,
  ],
  ['a request line without version', 'POST /bid/acme\r\nHost: a\r\n\r\n', 400],
  ['a space before the colon', `POST /bid/acme HTTP/1.1\r\nHost : a\r\n${body(2)}`, 400],
  ['a folded header', `POST /bid/acme HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n${body(2)}`, 400],
  ['a bare line feed', 'POST /bid/acme HTTP/1.1\nHost: a\nContent-Length: 0\n\n', 400],
  ['a NUL in a header', `POST /bid/acme HTTP/1.1\r\nHost: a\r\nX: \0\r\n${body(2)}`, 400],
  [
    'a head that is too large',
    `POST /bid/acme HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(70_000)}\r\n${body(2)}`,
    431,
  ],
  ['garbage', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n', 400],
  [
    'an unknown transfer coding',
    'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n',
    400,
  ],
  [
    'a transfer coding before chunked',
    'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  [
    'a bad chunk size',
    'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n',
    400,
  ],
]

t.test('what is not certainly one request is refused, and the connection closed', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  for (const [title, bytes, status] of attacks) {
    const answer = await raw(proxy.port, Buffer.from(bytes, 'latin1'), () => false)
    t.equal(answer.status, status, title)
    t.ok(answer.closed, `${title}: closed`)
  }
  t.equal(supplier.requests.length, 0)
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 204, 'others are served')
})

t.test(
  'heads and bodies that take longer than headTimeout are closed, silent connections too',
  async (t) => {
    const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
    const proxy = await startProxy(
      { acme: { endpoints: [supplier.url] } },
      { proxy: { headTimeout: '200ms' } },
    )
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const slow: [string, string][] = [
      ['silence', ''],
      ['half a head', 'POST /bid/acme HTTP/1.1\r\nHost: a\r\n'],
      ['half a body', 'POST /bid/acme HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nxx'],
    ]
    for (const [title, bytes] of slow) {
      const answer = await raw(proxy.port, bytes === '' ? [] : bytes, () => false)
      t.ok(answer.closed, title)
    }
    t.equal(supplier.requests.length, 0)
  },
)

t.test('pipelined requests are answered in order', async (t) => {
  const supplier = await httpSupplier((_request, response, body) => response.end(body))
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const answer = await raw(
    proxy.port,
    [1, 2, 3].map((n) => post('/bid/acme', `{"n":${n}}`)),
    (text) => text.split('{"n"').length === 4,
  )
  t.same(answer.bytes.match(/"n":\d/g), ['"n":1', '"n":2', '"n":3'])
})

t.test('a request starts when the one before it on its connection is answered', async (t) => {
  let answerFirst = () => {}
  const supplier = await rawSupplier((socket, request) => {
    const head = 'HTTP/1.1 200 OK\r\nContent-Length: '
    if (request.includes('first')) answerFirst = () => socket.write(`${head}2\r\n\r\n{}`)
    // More than is kept: it streams, and never ends.
    else socket.write(`${head}100000\r\n\r\nhalf`)
  })
  const route = { endpoints: [supplier.url], timeout: '20s' }
  const proxy = await startProxy({ acme: route, late: { ...route, timeout: '1s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  // From the first on the general lane's.
  const first = post('/bid/acme', '"first"', 'Connection: keep-alive, X\r\n')
  const answer = raw(proxy.port, [first, post('/bid/late', '{}')], () => false)
  await until(() => supplier.requests.length > 0)
  // Of another connection: by then the second one would have been sent, too.
  t.equal((await raw(proxy.port, post('/bid/late', '{}'))).closed, true)
  t.same(
    supplier.requests.map(({ body }) => body),
    ['"first"', '{}'],
  )
  answerFirst()
  const { bytes, closed } = await answer
  t.ok(closed)
  t.match(
    bytes,
    /^HTTP\/1\.1 200 [\s\S]*\{\}HTTP\/1\.1 200 /,
    'the first one whole, then the second',
  )
})

t.test('connections past maxConnections are refused, the ones before are served', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { proxy: { maxConnections: 2 } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const held = [callTo(proxy.port), callTo(proxy.port)]
  await Promise.all(held.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
  const third = await raw(proxy.port, post('/bid/acme', '{}'), () => false)
  t.equal(third.bytes, '')
  t.ok(third.closed)
  for (const socket of held) socket.destroy()
})

t.test('a connection past its age is closed with its next answer', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { proxy: { maxConnectionAge: '0s' } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const answer = await raw(proxy.port, post('/bid/acme', '{}'), () => false)
  t.match(answer.head, /Connection: close/i)
  t.ok(answer.closed)
})

t.test(
  'a body over the limit is refused and read to its end, so that the answer arrives',
  async (t) => {
    const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
    const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const large = Buffer.alloc(8 * 1024 * 1024, 'x')
    const head = 'POST /bid/acme HTTP/1.1\r\nHost: a\r\n'
    const sized = Buffer.from(`${head}Content-Length: ${large.length}\r\n\r\n`)
    const chunked = Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n800000\r\n`)
    for (const parts of [
      [sized, large],
      [chunked, large, '\r\n0\r\n\r\n'],
    ]) {
      // It writes to the end before it reads a byte, on a connection that serves on.
      const socket = callTo(proxy.port).pause()
      for (const part of parts) socket.write(part)
      await new Promise((resolve) => socket.write(post('/bid/acme', '{}'), resolve))
      const text = await new Promise<string>((resolve) => {
        let seen = ''
        socket.on('data', (chunk) => {
          seen += chunk.toString()
          if (seen.includes('HTTP/1.1 204')) resolve(seen)
        })
        socket
          .on('close', () => resolve(seen))
          .on('error', () => {})
          .resume()
      })
      t.same(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 413', 'HTTP/1.1 204'])
      socket.destroy()
    }
    t.equal(supplier.requests.length, 2)
  },
)

t.test('a caller that does not take its answer is closed', async (t) => {
  const answer = 'x'.repeat(4 * 1024 * 1024)
  const supplier = await httpSupplier((_request, response) => response.end(answer))
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: '20s' } },
    {
      proxy: { headTimeout: '200ms', keepAlive: '200ms', maxRewriteBytes: '8MiB' },
      // Read whole: what streams has its deadline.
      engine: idleEngine({ readsResponses: () => true }),
    },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  for (const connection of ['keep-alive', 'close']) {
    const socket = callTo(proxy.port).pause()
    socket.on('error', () => {})
    socket.write(post('/bid/acme', '{}', `Connection: ${connection}\r\n`))
    const connections = () => sample(proxy.registry, 'bidweir_connections')
    await until(async () => (await connections()) === 1)
    await until(async () => (await connections()) === 0)
    socket.destroy()
  }
  t.equal(supplier.requests.length, 2)
})

t.test('an offer to upgrade a bid is ignored, the absolute form is understood', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.end('{}'))
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const absolute = await raw(proxy.port, post('http://bids.example/bid/acme?a=1', '{}'))
  t.equal(absolute.status, 200)
  t.equal(supplier.requests[0]?.url, '/openrtb?a=1')
  const offer = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n'
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major === 24 && minor < 9) return void t.pass('Node.js before 24.9 cannot ignore it')
  t.equal((await raw(proxy.port, post('/bid/acme', '{}', offer))).status, 200)
  const { headers } = supplier.requests[1]!
  t.notOk(headers.some((name) => /^(upgrade|http2-settings)$/i.test(name)))
})

for (const lane of ['fast', 'general'] as const)
  t.test(`${lane} lane: a chunk size is checked before its data arrive`, async (t) => {
    const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
    const proxy = await startProxy({ acme: { endpoints: [supplier.url] } }, { lane })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const head = 'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
    const before = 'POST /bid/acme HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}'
    const sizes: [size: string, status: string][] = [
      ['100001', '413'],
      ['fffffffffffffff0', '413'],
      ['ffffffffffffffff', '413'],
      ['10000000000000000', '400'],
      ['-1', '400'],
      ['5 5', '400'],
      ['zz', '400'],
      ['', '400'],
    ]
    for (const [size, status] of sizes)
      for (const [start, answers] of [
        ['', ''],
        ['2\r\n{}\r\n', ''],
        [before, 'behind another request'],
      ] as const) {
        // No data of the chunk follow, and the connection stays open.
        const socket = callTo(proxy.port)
        socket.on('error', () => {})
        const answered = new Promise<string>((resolve) => {
          let seen = ''
          socket.on('data', (chunk) => {
            seen += chunk.toString()
            if (seen.includes(`HTTP/1.1 4`) && seen.includes('\r\n\r\n')) resolve(seen)
          })
        })
        const text = answers === '' ? `${head}${start}${size}` : `${start}${head}${size}`
        socket.write(`${text}\r\n`)
        const answer = await answered
        t.match(answer, new RegExp(`(^|\n)HTTP/1\\.1 ${status} `), `"${size}" after "${start}"`)
        socket.destroy()
      }
    t.equal(supplier.requests.length, sizes.length, 'only the requests before them were forwarded')
  })

t.test(
  'a chunked request is forwarded with a length, and its connection serves the next one',
  async (t) => {
    const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
    const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const text =
      'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\n{"a\r\n4\r\n":1}\r\n0\r\nX-Trailer: 1\r\n\r\n'
    for (const step of [1, 7, text.length]) {
      const socket = callTo(proxy.port)
      for (let round = 0; round < 2; round++) {
        const answered = new Promise<string>((resolve) =>
          socket.once('data', (chunk) => resolve(chunk.toString())),
        )
        for (let from = 0; from < text.length; from += step) {
          await new Promise((resolve) => socket.write(text.slice(from, from + step), resolve))
        }
        t.match(await answered, /^HTTP\/1\.1 204 /)
      }
      socket.destroy()
    }
    t.equal(supplier.requests.length, 6)
    for (const { body, headers } of supplier.requests) {
      t.equal(String(body), '{"a":1}')
      const fields = headers.join('\n').toLowerCase()
      t.match(fields, /content-length\n7(\n|$)/)
      t.notMatch(fields, /transfer-encoding/)
    }
  },
)
