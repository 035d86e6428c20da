import t from 'tap'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { answerText, httpSupplier, rawSupplier } from '../../support/supplier.ts'
import { schemeOf } from '../../support/transport.ts'

t.test('a bid request goes to the endpoint and its answer comes back byte for byte', async (t) => {
  const body = '{"id" : "1", "x":1.0,\n"y":9007199254740993}'
  const supplier = await rawSupplier((socket) =>
    socket.write(
      answerText('200 Fine', body, 'content-TYPE: application/json\r\nX-Odd: \xe9\r\nX-Odd: 2\r\n'),
      'latin1',
    ),
  )
  const proxy = await startProxy({ acme: { endpoints: [`${supplier.url}?key=1`] } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const request = '{"id":"r","imp":[]}'
  const answer = await raw(proxy.port, post('/bid/acme?a=b&c', request, 'X-Mine: caf\xe9\r\n'))
  t.equal(answer.status, 200)
  t.match(answer.head, /^HTTP\/1.1 200 Fine\r\n/)
  t.match(answer.head, /content-TYPE: application\/json\r\nX-Odd: \xe9\r\nX-Odd: 2\r\n/)
  t.equal(answer.body, body)
  t.equal(supplier.requests[0]!.url, '/openrtb?key=1&a=b&c')
  t.equal(supplier.requests[0]!.body, request)
  t.equal(await sample(proxy.registry, 'bidweir_requests_total{ssp="acme",outcome="answer"}'), 1)
})

t.test('headers that HTTP obliges a proxy to change are changed, others are not', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const headers =
    'Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nTE: trailers\r\ntraceparent: 00-a-b-01\r\nX-Forwarded-For: 1.2.3.4\r\nX-UNKNOWN: yes\r\n'
  const answer = await raw(proxy.port, post('/bid/acme', '{}', headers))
  t.equal(answer.status, 204)
  const sent = supplier.requests[0]!.headers
  const fieldOf = (name: string) =>
    sent[sent.findIndex((field, index) => index % 2 === 0 && field.toLowerCase() === name) + 1]
  t.equal(fieldOf('host'), new URL(supplier.url).host)
  t.equal(
    fieldOf('x-forwarded-for'),
    '127.0.0.1',
    'an untrusted caller does not say where it comes from',
  )
  t.equal(fieldOf('x-forwarded-host'), 'bids.example')
  t.equal(fieldOf('x-forwarded-proto'), schemeOf())
  t.equal(fieldOf('traceparent'), '00-a-b-01')
  t.ok(sent.includes('X-UNKNOWN'))
  t.notOk(sent.includes('X-Hop'))
  t.notOk(sent.includes('TE'))
  t.equal(
    sent.findIndex((field) => /^via$/i.test(field)),
    -1,
    'by a setting alone',
  )
  t.equal(answer.headers['via'], undefined)
})

t.test('X-Forwarded-* of a trusted proxy are kept and appended to', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { proxy: { trustedProxies: ['127.0.0.0/8'] } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const headers =
    'X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example\r\n'
  await raw(proxy.port, post('/bid/acme', '{}', headers))
  const sent = supplier.requests[0]!.headers
  t.equal(sent[sent.indexOf('X-Forwarded-For') + 1], '1.2.3.4, 127.0.0.1')
  t.equal(sent[sent.indexOf('X-Forwarded-Proto') + 1], 'https')
  t.equal(sent[sent.indexOf('X-Forwarded-Host') + 1], 'a.example')
})

t.test(
  'behind a trusted proxy the caller is whom it names, not what the caller says',
  async (t) => {
    const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
    const suppliers = { acme: { endpoints: [supplier.url], callers: { cidrs: ['10.0.0.0/8'] } } }
    const [behind, alone] = [
      await startProxy(suppliers, { proxy: { trustedProxies: ['127.0.0.1', '192.168.0.0/16'] } }),
      await startProxy(suppliers),
    ]
    t.teardown(() => Promise.all([behind.close(), alone.close(), supplier.close()]))
    const asked = async ({ port }: { port: number }, ...chains: string[]) => {
      const lines = chains.map((chain) => `X-Forwarded-For: ${chain}\r\n`).join('')
      return (await raw(port, post('/bid/acme', '{}', lines))).status
    }
    for (const chain of [
      '10.1.2.3',
      '1.2.3.4, 10.1.2.3:4711',
      '10.1.2.3, 192.168.0.7',
      '::ffff:10.0.0.1',
    ])
      t.equal(await asked(behind, chain), 204, chain)
    t.equal(await asked(behind, '1.2.3.4', '10.1.2.3'), 204, 'two lines are one chain')
    for (const chain of ['1.2.3.4', '10.1.2.3, 1.2.3.4', '10.1.2.3, unknown', ''])
      t.equal(await asked(behind, chain), 403, chain)
    t.equal(await asked(behind), 403)
    t.equal(await asked(alone, '10.1.2.3'), 403, 'no proxy is trusted')
  },
)

t.test('refusals of the listener are problem documents', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const proxy = await startProxy(
    {
      acme: { endpoints: [supplier.url] },
      closed: { endpoints: [supplier.url], callers: { cidrs: ['10.0.0.0/8'] } },
      keyed: { endpoints: [supplier.url], callers: { headers: { 'X-Key': 'k' } } },
    },
    { proxy: { maxRequestBytes: 100 } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const cases: [string, Buffer, number, string][] = [
    ['an unknown supplier', post('/bid/nobody', '{}'), 404, 'not_found'],
    ['an unknown path', post('/bids', '{}'), 404, 'not_found'],
    ['another method', Buffer.from('GET /bid/acme HTTP/1.1\r\nHost: a\r\n\r\n'), 405, 'method'],
    ['a caller from elsewhere', post('/bid/closed', '{}'), 403, 'caller'],
    ['a caller without its header', post('/bid/keyed', '{}'), 403, 'caller'],
    ['a large body', post('/bid/acme', 'x'.repeat(101)), 413, 'body'],
    [
      'a large chunked body',
      Buffer.from(
        `POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n${'x'.repeat(101)}\r\n0\r\n\r\n`,
      ),
      413,
      'body',
    ],
  ]
  for (const [title, bytes, status, code] of cases) {
    const answer = await raw(proxy.port, bytes)
    t.equal(answer.status, status, title)
    t.equal(answer.headers['content-type'], 'application/problem+json', title)
    t.equal(JSON.parse(answer.body).code, code, title)
    if (status === 405) t.equal(answer.headers['allow'], 'POST')
  }
  t.equal((await raw(proxy.port, post('/bid/keyed', '{}', 'x-key: k\r\n'))).status, 204)
  t.equal(supplier.requests.length, 1, 'nothing refused reached the supplier')
})

t.test('any method but POST is 405 with Allow, whichever supplier it names', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.end('{}'))
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    const request = `${method} /bid/acme HTTP/1.1\r\nHost: a\r\n\r\n`
    const answer = await raw(proxy.port, request, (text) => text.includes('\r\n\r\n'))
    t.match(answer, { status: 405, headers: { allow: 'POST' } }, method)
    if (method === 'HEAD') t.equal(answer.body, '')
  }
  t.equal(supplier.requests.length, 0)
})

t.test('X-Forwarded-For in several lines is kept whole', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { proxy: { trustedProxies: ['127.0.0.1'] } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const lines = 'X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nx-forwarded-for: 3.3.3.3\r\n'
  await raw(proxy.port, post('/bid/acme', '{}', lines))
  const sent = supplier.requests[0]!.headers
  const all = sent.filter((_each, index) => /^x-forwarded-for$/i.test(sent[index - 1] ?? ''))
  t.equal(all.join(', '), '1.1.1.1, 2.2.2.2, 3.3.3.3, 127.0.0.1')
})

t.test('an answer streams when OPD has nothing to do with it', async (t) => {
  const supplier = await rawSupplier((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n')
    sockets.push(() => socket.write('6\r\nsecond\r\n0\r\n\r\n'))
  })
  const sockets: (() => void)[] = []
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const answer = await raw(proxy.port, post('/bid/acme', '{}'), (text) => {
    if (text.includes('first') && !text.includes('second'))
      sockets.splice(0).forEach((go) => void go())
    return text.endsWith('0\r\n\r\n')
  })
  t.match(answer.body, /first[\s\S]*second/)
})

t.test('`via: true` names the proxy both ways, bids and /pass alike', async (t) => {
  const seen: string[] = []
  let answer = ''
  const supplier = await rawSupplier((socket, request) => {
    seen.push(request)
    socket.write(answer)
  })
  const passThrough = new URL(supplier.url).origin
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], passThrough } },
    { proxy: { via: true } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const pass = Buffer.from('GET /pass/acme/x HTTP/1.1\r\nHost: a\r\n\r\n')
  for (answer of [
    'HTTP/1.1 200 OK\r\nVia: 1.0 other\r\nContent-Length: 2\r\n\r\nok',
    'HTTP/1.1 200 OK\r\nVia: 1.0 other\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  ])
    for (const request of [post('/bid/acme', '{}'), pass]) {
      const { bytes } = await raw(proxy.port, request)
      t.match(bytes, /\r\nVia: 1\.0 other\r\n(.*\r\n)*Via: 1\.1 bidweir\r\n/)
      t.match(seen.at(-1), /\r\nVia: 1\.1 bidweir\r\n/)
    }
})

t.test('requests that their head is refused for are counted as such', async (t) => {
  const supplier = await httpSupplier((_request, response) => void response.end('{}'))
  const route = { endpoints: [supplier.url], callers: { headers: { 'x-key': 'k' } } }
  const { port, registry, close } = await startProxy(
    { acme: route },
    { proxy: { maxRequestBytes: '1KiB' } },
  )
  t.teardown(async () => {
    await close()
    await supplier.close()
  })
  const key = 'X-Key: k\r\n'
  const large = 'x'.repeat(2000)
  const statuses = [
    (await raw(port, post('/bid/acme', '{}'))).status,
    (await raw(port, post('/bid/acme', large, key))).status,
    (await raw(port, `GET /bid/acme HTTP/1.1\r\nHost: a\r\n${key}\r\n`)).status,
    (await raw(port, post('/bid/acme', '{}', key))).status,
  ]
  t.same(statuses, [403, 413, 405, 200])
  const counted = (outcome: string) =>
    sample(registry, `bidweir_requests_total{ssp="acme",outcome="${outcome}"}`)
  t.same([await counted('refused'), await counted('answer')], [3, 1])
})
