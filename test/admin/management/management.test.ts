/** The management API over a real socket, the same on SQLite and PostgreSQL. */
import { path, seat, serve } from '../../support/management.ts'
import { onBoth } from '../../support/store.ts'

onBoth(async (t, database) => {
  const { call, directory } = await serve(t, database)

  t.test('an account sees its own suppliers, * sees all; both forms of a path work', async (t) => {
    const ids = async (who: string) =>
      (await call('GET', '/api/svc/ssp/', undefined, who)).body.map(({ id }: { id: string }) => id)
    t.same(await ids('acme'), ['acme'])
    t.same(await ids('root'), ['acme', 'zeta'])
    const one = await call('GET', '/api/svc/ssp/acme')
    t.same(one.body, {
      id: 'acme',
      name: 'Acme',
      name_external: 'Acme Exchange',
      dsp_seats: [],
      datacenters: [],
    })
    t.ok(one.headers.get('etag'))
    const foreign = await call('GET', path, undefined, 'other')
    const absent = await call('GET', '/api/svc/ssp/nothing/', undefined, 'other')
    t.equal(foreign.status, 404)
    t.same(foreign.body, absent.body, "another account's supplier is as absent as none")
  })

  t.test('401, 403, 405, 415', async (t) => {
    const none = await call('GET', path, undefined, '')
    t.equal(none.status, 401)
    t.match(none.headers.get('www-authenticate'), /^Bearer/)
    t.equal((await call('GET', path, undefined, 'forged')).status, 401)
    t.equal((await call('GET', path, undefined, 'nobody')).status, 403)
    t.equal((await call('PUT', '/api/svc/opd/acme/', { hold: true }, 'reader')).status, 403)
    const wrong = await call('DELETE', path)
    t.equal(wrong.status, 405)
    t.match(wrong.headers.get('allow'), /^GET, HEAD, POST, PUT$/)
    t.equal((await call('POST', path, 'x', 'acme', { 'content-type': 'text/plain' })).status, 415)
  })

  t.test('a buyer is created, with its data center under any of its three names', async (t) => {
    const created = await call('POST', path, {
      dsp_seats: [seat('s1')],
      'the service': [{ location: 'us-east', client_qps: 80, is_active: true }],
    })
    t.equal(created.status, 201)
    t.match(created.body.datacenters, [{ location: 'us-east', client_qps: 80 }])
    const rule = await call('POST', path, {
      dsp_seats: [seat('s2')],
      datacenters: [{ location: 'eu', client_qps: 1 }],
    })
    t.equal(rule.status, 422)
    t.match(rule.body.errors, [{ pointer: '/datacenters/0/client_qps' }])
    t.equal((await call('GET', path)).body.dsp_seats.length, 1, 'all or nothing')
    t.equal((await call('POST', path, { name: 'Other' })).status, 422)
  })

  t.test(
    'POST ignores seats and data centers that exist as sent, and adds the others',
    async (t) => {
      const center = { location: 'us-east', client_qps: 80, is_active: true }
      const { headers } = await call('GET', path)
      const unchanged = [
        { dsp_seats: [seat('s1')], svc: [center] },
        { dsp_seats: [{ name: 's1' }], svc: [{ location: 'us-east' }] },
        {
          dsp_seats: [{ name: 's1', is_active: true, qps: [{ location: 'us-east', value: 100 }] }],
        },
      ]
      for (const body of unchanged) {
        const repeated = await call('POST', path, body)
        t.equal(repeated.status, 201, JSON.stringify(body))
        t.equal(repeated.headers.get('etag'), headers.get('etag'), 'nothing has changed')
      }
      const more = await call('POST', '/api/svc/ssp/zeta/', { dsp_seats: [seat('s1')] }, 'root')
      t.equal(more.status, 201)
      const added = await call(
        'POST',
        '/api/svc/ssp/zeta/',
        { dsp_seats: [seat('s1'), { name: 's2' }] },
        'root',
      )
      t.match(added.body.dsp_seats, [
        seat('s1'),
        { name: 's2', name_external: 's2', is_active: true, qps: [] },
      ])
    },
  )

  t.test('POST refuses a seat or data center that exists with another value', async (t) => {
    const cases: [object, string][] = [
      [{ dsp_seats: [{ ...seat('s1'), name_external: 'other' }] }, '/dsp_seats/0/name_external'],
      [{ dsp_seats: [{ name: 's1', is_active: false }] }, '/dsp_seats/0/is_active'],
      [{ dsp_seats: [seat('s1', 99)] }, '/dsp_seats/0/qps'],
      [{ dsp_seats: [{ name: 's1', qps: [] }] }, '/dsp_seats/0/qps'],
      [{ dsp_seats: [{ name: 'new' }, seat('s1', null)] }, '/dsp_seats/1/qps'],
      [{ datacenters: [{ location: 'us-east', client_qps: 1 }] }, '/datacenters/0/client_qps'],
      [{ svc: [{ location: 'us-east', is_active: false }] }, '/svc/0/is_active'],
    ]
    for (const [body, pointer] of cases) {
      const refused = await call('POST', path, body)
      t.equal(refused.status, 409, pointer)
      t.match(refused.body.errors, [{ pointer }])
    }
    t.equal((await call('GET', path)).body.dsp_seats.length, 1, 'all or nothing')
  })

  t.test('a seat without a limit at a location lifts the bound of client_qps there', async (t) => {
    const zeta = '/api/svc/ssp/zeta/'
    const send = (method: string, body: unknown) => call(method, zeta, body, 'root')
    const center = (client_qps: number | null, location = 'us-east') => ({
      datacenters: [{ location, client_qps }],
    })
    t.equal((await send('POST', center(101))).status, 422, 'the sum is 100')
    t.equal((await send('POST', { dsp_seats: [seat('no limit', null)] })).status, 201)
    t.equal((await send('POST', center(1_000_000))).status, 201)
    t.equal((await send('PUT', center(2_000_000))).status, 200)
    const elsewhere = await send('POST', center(1, 'eu'))
    t.equal(elsewhere.status, 422, 'a seat without an entry counts as 0')
    t.match(elsewhere.body.errors, [{ pointer: '/datacenters/0/client_qps' }])
    t.equal((await send('POST', center(null, 'eu'))).status, 201)
  })

  t.test('a supplier knows whether all its seats are inactive', async (t) => {
    const zeta = '/api/svc/ssp/zeta/'
    const states = async (...active: boolean[]) => {
      const dsp_seats = ['s1', 's2', 'no limit'].map((name, n) => ({ name, is_active: active[n] }))
      t.equal((await call('PUT', zeta, { dsp_seats }, 'root')).status, 200)
      await directory.refresh()
      return directory.snapshot().suppliers.get('zeta')?.allSeatsInactive
    }
    t.equal(await states(false, false, false), true)
    t.equal(await states(false, true, false), false)
  })

  t.test('only is_active and client_qps can be edited, within the rule', async (t) => {
    const put = (body: unknown, more = {}) => call('PUT', path, body, 'acme', more)
    t.equal(
      (await put({ dsp_seats: [{ name: 's1', is_active: false }] })).body.dsp_seats[0].is_active,
      false,
    )
    await directory.refresh()
    t.ok(directory.snapshot().suppliers.get('acme')?.inactiveSeats.has('s1'))
    const edited = await put({ dsp_seats: [{ name: 's1', name_external: 'new', qps: [] }] })
    t.equal(edited.status, 422)
    t.same(
      edited.body.errors.map(({ pointer }: { pointer: string }) => pointer),
      ['/dsp_seats/0/name_external', '/dsp_seats/0/qps'],
    )
    t.equal((await put({ datacenters: [{ location: 'us-east', client_qps: 101 }] })).status, 422)
    t.equal((await put({ datacenters: [{ location: 'us-east', client_qps: 100 }] })).status, 200)
    t.equal((await put({ datacenters: [{ location: 'us-east', client_qps: null }] })).status, 200)
    t.equal((await put({ dsp_seats: [{ name: 'none', is_active: true }] })).status, 422)
    const { headers } = await call('GET', path)
    const etag = headers.get('etag')!
    t.equal(
      (await put({ dsp_seats: [{ name: 's1', is_active: true }] }, { 'if-match': '"0"' })).status,
      412,
    )
    t.equal(
      (await put({ dsp_seats: [{ name: 's1', is_active: true }] }, { 'if-match': etag })).status,
      200,
    )
    t.equal(
      (await put({ dsp_seats: [{ name: 's1', is_active: false }] }, { 'if-match': etag })).status,
      412,
    )
  })

  t.test('faults of bodies are reported field by field', async (t) => {
    const cases: [unknown, number, string][] = [
      ['{', 400, ''],
      ['[]', 400, ''],
      ['{"dsp_seats":[{"name":"x","name":"y"}]}', 400, '/dsp_seats/0/name'],
      ['{"a~b/c":1}', 400, '/a~0b~1c'],
      [Buffer.from([0x7b, 0xff, 0x7d]), 400, ''],
      [{ dsp_seats: 'x' }, 400, '/dsp_seats'],
      [{ dsp_seats: [{ name: 'x'.repeat(10_000), is_active: true }] }, 400, '/dsp_seats/0/name'],
      [
        { datacenters: [{ location: 'us-east', client_qps: -1 }] },
        400,
        '/datacenters/0/client_qps',
      ],
      [
        { datacenters: [{ location: 'us-east', client_qps: 1.5 }] },
        400,
        '/datacenters/0/client_qps',
      ],
      [
        { datacenters: [{ location: 'us-east', client_qps: 1e308 }] },
        400,
        '/datacenters/0/client_qps',
      ],
      [{ datacenters: [], svc: [] }, 400, '/datacenters'],
    ]
    for (const [body, status, pointer] of cases) {
      const answer = await call('PUT', path, body)
      t.equal(answer.status, status, JSON.stringify(body).slice(0, 60))
      t.equal(answer.headers.get('content-type'), 'application/problem+json')
      t.equal(answer.body.errors[0].pointer, pointer)
    }
  })
})
