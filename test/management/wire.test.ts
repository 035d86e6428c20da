/** What people and their scripts send by mistake, byte for byte over a socket, to the service as it is started. */
import net from 'node:net'
import t from 'tap'
import { newFolder, startBidweir, token } from '../support/process.ts'

const folder = newFolder()
const yaml = `
proxy: {listen: 127.0.0.1:0}
admin: {listen: 127.0.0.1:0}
store: {database: 'sqlite:${folder}/b.db'}
suppliers: [{id: acme, endpoints: ['http://127.0.0.1:9/'], account: a, opd: {enabled: true, holdout: 0}}]
`
let bidweir = await startBidweir(yaml, folder)
t.teardown(() => bidweir.stop())
const bearer = await token(bidweir)
const json = 'application/json'

interface Asked {
  body?: string | Buffer
  type?: string | null
  head?: Record<string, string>
  anonymous?: boolean
}

/** Sends a request and reads the answer to its end. */
async function ask(method: string, path: string, asked: Asked = {}) {
  const { body, type = json, head = {}, anonymous = false } = asked
  const bytes = body === undefined ? null : Buffer.from(body as string)
  const lines = Object.entries({
    Host: 'x',
    Connection: 'close',
    ...(anonymous ? {} : { Authorization: `Bearer ${bearer}` }),
    ...(bytes === null ? {} : { 'Content-Length': String(bytes.length) }),
    ...(bytes === null || type === null ? {} : { 'Content-Type': type }),
    ...head,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const socket = net.connect(bidweir.adminPort, '127.0.0.1')
  socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  if (bytes !== null) socket.write(bytes)
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk as Buffer)
  const [top = '', text = ''] = Buffer.concat(chunks)
    .toString()
    .split(/\r\n\r\n(.*)/s)
  const headers = new Headers(
    top
      .split('\r\n')
      .slice(1)
      .map((line): [string, string] => [
        line.slice(0, line.indexOf(':')),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
  )
  const problem = headers.get('content-type') === 'application/problem+json' && text !== ''
  // biome-ignore lint/suspicious/noExplicitAny: what any call answers
  const document = (problem ? JSON.parse(text) : null) as any
  return { status: Number(top.split(' ')[1]), headers, text, document }
}

const path = '/api/svc/ssp/acme/'
const tokens = '/auth/realms/main/protocol/openid-connect/token'
const seat = {
  name: 's1',
  qps: [
    { location: 'us', value: 100 },
    { location: 'eu', value: null },
  ],
}

t.test('paths: forms, names that are none, methods', async (t) => {
  const cases: [string, string, number, string | null][] = [
    ['GET', '/api/svc/ssp', 200, null],
    ['GET', '/api/svc/ssp/%61cme', 200, null],
    ['HEAD', path, 200, null],
    ['HEAD', '/api/svc/ssp/', 200, null],
    ['OPTIONS', path, 405, 'GET, HEAD, POST, PUT'],
    ['DELETE', '/api/svc/ssp/', 405, 'GET, HEAD'],
    ['POST', '/api/svc/ssp/', 405, 'GET, HEAD'],
    ['PUT', '/api/svc/ssp', 405, 'GET, HEAD'],
    ['PUT', '/api/svc/opd/', 405, 'GET, HEAD'],
    ['GET', '/api/svc/opd/acme', 405, 'PUT'],
    ['POST', '/api/svc/audit/', 405, 'GET, HEAD'],
    ['POST', '/api/svc/reports/margin', 405, 'GET, HEAD'],
    ['PROPFIND', path, 405, 'GET, HEAD, POST, PUT'],
    ['QUERY', path, 405, 'GET, HEAD, POST, PUT'],
    ['PROPFIND', '/opd/imp?bid_id=b&price=1', 405, 'GET'],
    ['PROPFIND', '/opd/acme_yesbid', 405, 'POST'],
    ['PROPFIND', '/opd/other', 404, null],
    ['OPTIONS', tokens, 405, 'POST'],
    ['PROPFIND', tokens, 405, 'POST'],
    ['QUERY', '/nowhere', 404, null],
    ['HEAD', '/', 200, null],
    ['HEAD', '/dashboard/settings.json', 200, null],
    ['HEAD', '/api/svc/live/', 200, null],
    ['HEAD', '/auth/realms/main/.well-known/openid-configuration', 200, null],
    ['HEAD', '/auth/realms/main/protocol/openid-connect/certs', 200, null],
    ['HEAD', '/api/svc/decisions/abc?bid_id=b', 404, null],
    ['GET', '/api/svc/decisions/abc/', 400, null],
    ['GET', `/api/svc/ssp/${'x'.repeat(10_240)}/`, 404, null],
    ['PUT', `/api/svc/ssp/${'x'.repeat(700)}/`, 404, null],
    ['GET', '/api/svc/ssp/ac%2Fme/', 404, null],
    ['GET', '/api/svc/ssp/%00/', 404, null],
    ['GET', '/api/svc/ssp/__proto__/', 404, null],
    ['GET', '/api/svc/ssp/%zz/', 400, null],
    ['GET', '/api/svc/ssp/%ff/', 400, null],
    ['GET', '/api/svc//ssp/', 404, null],
  ]
  for (const [method, url, status, allow] of cases) {
    const answer = await ask(method, url)
    const name = `${method} ${url.slice(0, 60)}`
    t.equal(answer.status, status, name)
    t.equal(answer.headers.get('allow'), allow, `${name}: Allow`)
    if (status >= 400 && method !== 'HEAD')
      t.equal(answer.document?.status, status, `${name}: a problem document`)
    if (method === 'HEAD') t.equal(answer.text, '', `${name} has no body`)
  }
})

t.test('who may not call is told before a body is looked at', async (t) => {
  for (const body of ['{', 'x'.repeat(2_000_000)])
    t.equal((await ask('PUT', path, { body, type: 'text/plain', anonymous: true })).status, 401)
})

t.test('a path that takes no body says so whatever the body is', async (t) => {
  const bodies: Asked[] = [
    { body: '{' },
    { body: 'x'.repeat(2_000_000) },
    { body: '<a/>', type: 'text/xml' },
  ]
  for (const asked of bodies) {
    const refused = await ask('POST', '/api/svc/ssp/', asked)
    t.equal(refused.status, 405)
    t.equal(refused.headers.get('allow'), 'GET, HEAD')
    t.equal((await ask('POST', '/nowhere', asked)).status, 404)
  }
})

t.test('the embedded realm is found by its discovery, at whatever port', async (t) => {
  const base = `http://127.0.0.1:${bidweir.adminPort}/auth/realms/main`
  const found = JSON.parse(
    (await ask('GET', '/auth/realms/main/.well-known/openid-configuration')).text,
  ) as Record<string, string>
  t.match(found, {
    issuer: base,
    token_endpoint: `${base}/protocol/openid-connect/token`,
    jwks_uri: `${base}/protocol/openid-connect/certs`,
  })
  const claims = JSON.parse(Buffer.from(bearer.split('.')[1]!, 'base64url').toString())
  t.equal(claims.iss, base)
  t.equal((await fetch(found['jwks_uri']!)).status, 200)
})

t.test('what an account sees is kept by no cache', async (t) => {
  for (const url of [
    path,
    '/api/svc/reports/margin',
    '/api/svc/reports/x',
    '/api/svc/decisions/abc',
  ])
    t.equal((await ask('GET', url)).headers.get('cache-control'), 'no-store', url)
})

t.test('media types and encodings', async (t) => {
  const cases: [Asked, number][] = [
    [{ body: '{}', type: 'APPLICATION/JSON; charset=UTF-8' }, 200],
    [{ body: '{}', type: 'text/plain' }, 415],
    [{ body: '{}', type: 'application/merge-patch+json' }, 415],
    [{ body: '{}', type: null }, 415],
    [{ body: '{}', head: { 'Content-Encoding': 'gzip' } }, 415],
    [{ body: '{}', head: { 'Content-Encoding': 'identity' } }, 200],
    [{ body: Buffer.from('{}', 'utf16le') }, 400],
    [{ body: Buffer.from('{"dsp_seats":[{"name":"\xff"}]}', 'latin1') }, 400],
    [{ body: '\uFEFF{}' }, 400],
    [{ body: '' }, 400],
    [{}, 400],
    [{ body: `{"a":"${'x'.repeat(1_100_000)}"}` }, 413],
    [{ body: `{"a":"${'x'.repeat(3_000_000)}"}` }, 413],
  ]
  for (const [asked, status] of cases)
    t.equal((await ask('PUT', path, asked)).status, status, JSON.stringify(asked).slice(0, 80))
})

t.test('a call that is refused for its encoding changes nothing, and prices nothing', async (t) => {
  const head = { 'Content-Encoding': 'gzip' }
  const before = (await ask('GET', path)).headers.get('etag')
  const made = await ask('POST', path, { body: '{"dsp_seats":[{"name":"ghost"}]}', head })
  t.equal(made.status, 415)
  const held = await ask('PUT', '/api/svc/opd/acme/', { body: '{"hold":true}', head })
  t.equal(held.status, 415)
  const priced = await ask('POST', '/opd/acme_yesbid', {
    body: '{"seatbid":[{"bid":[{"id":"ghost","price":1}]}]}',
    head,
  })
  t.equal(priced.status, 415)
  t.equal(priced.headers.get('content-type'), 'application/problem+json')
  // behind whatever was still under way for them
  t.equal((await ask('PUT', path, { body: '{}' })).headers.get('etag'), before)
  t.notMatch((await ask('GET', path)).text, 'ghost')
  t.match((await ask('GET', '/api/svc/opd/')).text, '{"supplier":"acme","hold":false}')
  t.same(JSON.parse((await ask('GET', '/api/svc/reports/wins?by=ssp')).text), [])
})

t.test('values, each fault by its pointer', async (t) => {
  const center = { location: 'us', client_qps: 80, is_active: true }
  const made = await ask('POST', path, {
    body: JSON.stringify({ dsp_seats: [seat], svc: [center] }),
  })
  t.equal(made.status, 201)
  const qps = (text: string) => `{"datacenters":[{"location":"us","client_qps":${text}}]}`
  const refused: [string, number, string][] = [
    ...['1e400', '-1e400', '1.5', '-1', '9007199254740993', '"80"', 'true', '[]', '{}'].map(
      (text): [string, number, string] => [qps(text), 400, '/datacenters/0/client_qps'],
    ),
    ...['01', 'NaN', '.5', '0x1', '+1'].map((text): [string, number, string] => [
      qps(text),
      400,
      '',
    ]),
    [qps('101'), 422, '/datacenters/0/client_qps'],
    ['{"the service":[{"location":"us","client_qps":101}]}', 422, '/the service/0/client_qps'],
    ['{"svc":[{"location":"us","client_qps":-1}]}', 400, '/svc/0/client_qps'],
    ['{"svc":[{"location":"mars"}]}', 422, '/svc/0/location'],
    ['{"dsp_seats":[{"name":"s1","qps":[]}]}', 422, '/dsp_seats/0/qps'],
    ['{"dsp_seats":[{"name":"s1","is_active":null}]}', 400, '/dsp_seats/0/is_active'],
    ['{"dsp_seats":null}', 400, '/dsp_seats'],
    ['{"dsp_seats":[{"is_active":true}]}', 400, '/dsp_seats/0/name'],
    ['{"dsp_seats":[{"name":"s1","x":1}]}', 400, '/dsp_seats/0/x'],
    ['{"dsp_seats":[{"name":"s1"},{"name":"s1"}]}', 400, '/dsp_seats'],
    ['{"__proto__":{"a":1}}', 400, '/__proto__'],
    ['{"dsp_seats":[{"name":"s1","\\u006eame":"s1"}]}', 400, '/dsp_seats/0/name'],
    ['{"svc":[],"the service":[]}', 400, '/svc'],
    ['{"dsp_seats":[{"name":"a\\u0000b"}]}', 400, '/dsp_seats/0/name'],
    ['{"dsp_seats":[{"name":"a\\ud800b"}]}', 400, '/dsp_seats/0/name'],
    ['null', 400, ''],
    ['"x"', 400, ''],
  ]
  for (const [body, status, pointer] of refused) {
    const answer = await ask('PUT', path, { body })
    t.equal(answer.status, status, body)
    t.equal(answer.document.errors[0].pointer, pointer, body)
  }
  for (const text of ['0', '-0', '1.0', '80e0', 'null', '80'])
    t.equal((await ask('PUT', path, { body: qps(text) })).status, 200, text)
  const turned = { dsp_seats: [{ ...seat, qps: seat.qps.toReversed() }] }
  t.equal((await ask('PUT', path, { body: JSON.stringify(turned) })).status, 200, 'in any order')
})

t.test('bodies made to hold the service are refused at once', async (t) => {
  const bodies = {
    deep: '['.repeat(400_000) + ']'.repeat(400_000),
    'deep, with keys twice': `${'{"a":'.repeat(100_000)}{${'"b":1,'.repeat(5000)}"b":1}${'}'.repeat(100_000)}`,
    'many names': `{${Array.from({ length: 90_000 }, (_, n) => `"k${n}":1`).join(',')}}`,
    'one name, many times': `{${Array.from({ length: 90_000 }, () => '"k":1').join(',')}}`,
    'many entries': `{"dsp_seats":[${'0,'.repeat(400_000)}0]}`,
  }
  for (const [name, body] of Object.entries(bodies)) {
    const answer = await ask('PUT', path, { body })
    t.equal(answer.status, 400, name)
    t.ok(answer.text.length < 20_000, `${name}: ${answer.text.length} bytes`)
  }
  t.equal((await ask('GET', path)).status, 200)
})

t.test('POST: what stands, what conflicts; If-Match on both calls', async (t) => {
  const post = (body: unknown, head = {}) => ask('POST', path, { body: JSON.stringify(body), head })
  t.equal((await post({ dsp_seats: [{ name: 's1' }] })).status, 409)
  t.equal((await post({ datacenters: [{ location: 'us' }] })).status, 201, 'nothing in it differs')
  t.equal((await post({ datacenters: [{ location: 'us', is_active: false }] })).status, 409)
  t.equal(
    (await post({ dsp_seats: [{ name: 's2' }], datacenters: [{ location: 'us', client_qps: 1 }] }))
      .status,
    409,
  )
  t.notMatch((await ask('GET', path)).text, /"s2"/, 'all or nothing')
  const etag = (await ask('GET', path)).headers.get('etag')!
  const cases: [string, boolean][] = [
    [etag, true],
    [` ${etag} `, true],
    ['*', true],
    [`"none", ${etag}`, true],
    [`W/${etag}`, false],
    [etag.replaceAll('"', ''), false],
    ['"none"', false],
    ['""', false],
  ]
  for (const [value, fits] of cases) {
    const head = { 'If-Match': value }
    t.equal((await ask('PUT', path, { body: '{}', head })).status, fits ? 200 : 412, value)
    t.equal((await post({}, head)).status, fits ? 201 : 412, value)
  }
  t.equal((await ask('GET', path)).headers.get('etag'), etag, 'what changes nothing is no change')
})

t.test('holds and the audit trail', async (t) => {
  const hold = (id: string, body: string) => ask('PUT', `/api/svc/opd/${id}`, { body })
  t.equal((await hold('*/', '{"hold":true}')).status, 200)
  t.equal((await hold('*/', '{"hold":true}')).status, 200, 'again')
  t.equal((await hold('%2A', '{"hold":false}')).status, 200)
  t.equal((await hold('none/', '{"hold":true}')).status, 404)
  for (const body of ['{}', '{"hold":1}', '{"hold":null}', '{"hold":true,"x":1}', '[]'])
    t.equal((await hold('acme', body)).status, 400, body)
  const trail = JSON.parse((await ask('GET', '/api/svc/audit/')).text) as Record<string, unknown>[]
  t.match(trail.slice(0, 2), [
    { supplier: '*', action: 'hold', before: true, after: false, who: 'admin' },
    { supplier: '*', action: 'hold', before: false, after: true },
  ])
  t.equal(trail.filter(({ action }) => action === 'hold').length, 2, 'a change each')
  const page = JSON.parse(
    (await ask('GET', `/api/svc/audit?limit=1&before=${trail[0]!['id']}`)).text,
  )
  t.same(page, [trail[1]], 'page by page')
  for (const query of [
    'limit=0',
    'limit=1001',
    'limit=x',
    'limit=',
    'before=-1',
    'x=1',
    'limit=1&limit=2',
  ]) {
    const { status, document } = await ask('GET', `/api/svc/audit/?${query}`)
    t.equal(status, 400, query)
    t.equal(document.errors[0].pointer, query.split('=')[0], query)
  }
})

t.test('reports name every bad parameter', async (t) => {
  const bad = 'from=2026-02-30&to=yesterday&by=week&format=xml&q=1&ssp=a&ssp=b'
  const { status, document } = await ask('GET', `/api/svc/reports/margin?${bad}`)
  t.equal(status, 400)
  t.same(document.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), [
    'by',
    'format',
    'from',
    'q',
    'ssp',
    'to',
  ])
  const time = '2026-01-31T12:00:00'
  // a plus that was not escaped is a space in a query
  for (const zone of ['', 'Z', '%2B02:00', '+02:00', '-02:00'])
    t.equal(
      (await ask('GET', `/api/svc/reports/wins/?from=${time}${zone}&to=2026-02-01`)).status,
      200,
    )
  t.equal((await ask('GET', '/api/svc/reports/wins?from=2026-02-02&to=2026-02-01')).status, 400)
  const [noon, two] = [`from=${time}+02:00`, 'to=2026-01-31T10:00:00Z']
  t.equal((await ask('GET', `/api/svc/reports/wins?${noon}&${two}`)).status, 200, 'the same moment')
  const before = 'to=2026-01-31T09:59:59Z'
  t.equal((await ask('GET', `/api/svc/reports/wins?${noon}&${before}`)).status, 400)
})

t.test('a hold and a change stand after kill -9, and win over the file', async (t) => {
  t.equal((await ask('PUT', '/api/svc/opd/acme/', { body: '{"hold":true}' })).status, 200)
  const { headers } = await ask('GET', path)
  bidweir.child.kill('SIGKILL')
  await bidweir.exited
  bidweir = await startBidweir(yaml, folder)
  const { text, headers: after } = await ask('GET', path)
  t.equal(after.get('etag'), headers.get('etag'))
  t.match(text, /"s1"/)
  t.match((await ask('GET', '/api/svc/opd/')).text, '{"supplier":"acme","hold":true}')
  const body = '{"seatbid":[{"bid":[{"id":"b","impid":"1","price":2,"dsp_id":"d","price_dsp":2}]}]}'
  const priced = await ask('POST', '/opd/acme_yesbid', { body })
  t.match(priced.text, '"modified_price":2,', 'factor 1 from the first bid on')

  const told = [await ask('PUT', '/api/svc/opd/acme/', { body: '{"hold":false}' })]
  told.unshift(await ask('PUT', '/api/svc/opd/acme/', { body: '{"hold":true}' }))
  const trail = JSON.parse((await ask('GET', '/api/svc/audit/')).text) as { request_id: string }[]
  const ids = trail.map(({ request_id }) => request_id)
  t.same(
    ids.slice(0, 2),
    told.map(({ headers }) => headers.get('x-request-id')),
    'each entry has the id that its call was told',
  )
  // a number of the process would come again after a restart, and on every node
  for (const id of ids) t.match(id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
})
