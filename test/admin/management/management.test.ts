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
    t.equal((await call('POST', path, { dsp_seats: [seat('s1')] })).status, 409)
    t.equal(
      (
        await call('POST', path, {
          svc: [{ location: 'us-east', client_qps: 80, is_active: true }],
        })
      ).status,
      201,
      'as it stands: ignored',
    )
    t.equal(
      (
        await call('POST', path, {
          datacenters: [{ location: 'us-east', client_qps: 1, is_active: true }],
        })
      ).status,
      409,
    )
    const rule = await call('POST', path, {
      dsp_seats: [seat('s2')],
      datacenters: [{ location: 'eu', client_qps: 1 }],
    })
    t.equal(rule.status, 422)
    t.match(rule.body.errors, [{ pointer: '/datacenters/0/client_qps' }])
    t.equal((await call('GET', path)).body.dsp_seats.length, 1, 'all or nothing')
    t.equal((await call('POST', path, { name: 'Other' })).status, 422)
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
