/** Which changes are accepted and refused, and their audit trail, also after a restart. */
import t from 'tap'
import { startBidweir } from '../../support/process.ts'
import { path, seat, startWire } from '../../support/service-api.ts'

const { ask, restart } = await startWire(t, startBidweir)
const center = { location: 'us', client_qps: 80, is_active: true }
await ask('POST', path, { body: JSON.stringify({ dsp_seats: [seat], svc: [center] }) })

t.test('POST: what is accepted, what conflicts; If-Match on both calls', async (t) => {
  const post = (body: unknown, head = {}) => ask('POST', path, { body: JSON.stringify(body), head })
  t.equal((await post({ dsp_seats: [seat] })).status, 201, 'nothing in it differs')
  t.equal((await post({ dsp_seats: [{ ...seat, qps: [] }] })).status, 409)
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

t.test('a hold and a change stand after kill -9, and win over the file', async (t) => {
  t.equal((await ask('PUT', '/api/svc/opd/acme/', { body: '{"hold":true}' })).status, 200)
  const { headers } = await ask('GET', path)
  await restart()
  const { text, headers: after } = await ask('GET', path)
  t.equal(after.get('etag'), headers.get('etag'))
  t.match(text, /"s1"/)
  t.match((await ask('GET', '/api/svc/opd/')).text, '{"supplier":"acme","hold":true}')
  const body = '{"seatbid":[{"bid":[{"id":"b","impid":"1","price":2,"dsp_id":"d","price_dsp":2}]}]}'
  const priced = await ask('POST', '/opd/acme_yesbid', { body })
  t.match(priced.text, '"modified_price":2,', 'factor 1 from the first bid on')

  const responses = [await ask('PUT', '/api/svc/opd/acme/', { body: '{"hold":false}' })]
  responses.unshift(await ask('PUT', '/api/svc/opd/acme/', { body: '{"hold":true}' }))
  const trail = JSON.parse((await ask('GET', '/api/svc/audit/')).text) as { request_id: string }[]
  const ids = trail.map(({ request_id }) => request_id)
  t.same(
    ids.slice(0, 2),
    responses.map(({ headers }) => headers.get('x-request-id')),
    'each entry has the id of its response',
  )
  // a number of the process would come again after a restart, and on every node
  for (const id of ids) t.match(id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
})
