/** Paths, methods and queries that are wrong by mistake, sent to the service as it is started. */
import t from 'tap'
import { type Asked, path, startWire } from '../../support/service-api.ts'

const { ask, bearer, url } = await startWire(t)
const tokens = '/auth/realms/main/protocol/openid-connect/token'

t.test('paths: accepted forms, invalid names, other methods', async (t) => {
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

t.test('a caller without permission is refused before the body is read', async (t) => {
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
  const base = `${url()}/auth/realms/main`
  const answer = await fetch(`${base}/.well-known/openid-configuration`)
  const found = (await answer.json()) as Record<string, string>
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
