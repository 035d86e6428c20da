/** Endpoints that an operator ejects or restores for a time: who may, what is refused, and what the audit trail has. */
import { serve } from '../../support/management.ts'
import { onBoth } from '../../support/store.ts'

const path = '/api/svc/endpoints/acme/'
const [eu, us] = ['https://eu.acme.example/bid', 'https://us.acme.example/bid'] as const

onBoth(async (t, database) => {
  const { call, directory, store } = await serve(t, database)
  const put = (endpoint: string, action: string, more: object = {}, who = 'root') =>
    call('PUT', path, { endpoint, action, ...more }, who)

  t.test('an endpoint is ejected for a time on every node, and released', async (t) => {
    const before = store.clock()
    const ejected = await put(eu, 'eject', { for: '10m' })
    t.equal(ejected.status, 200, JSON.stringify(ejected.body))
    t.match(ejected.body.endpoints, [
      { url: eu, override: { action: 'eject', who: 'root' } },
      { url: us, override: null },
    ])
    await directory.refresh()
    const [row] = directory.snapshot().overrides
    t.match(row, { supplier: 'acme', endpoint: eu, state: 'out' })
    t.ok(Math.abs(row!.until - before - 600_000) < 60_000)
    t.match((await call('GET', '/api/svc/endpoints/?down=true', undefined, 'root')).body, [
      { supplier: 'acme' },
    ])
    t.equal((await put(eu, 'restore')).status, 200)
    await directory.refresh()
    t.match(directory.snapshot().overrides, [{ state: 'in' }])
    t.equal((await put(eu, 'release')).status, 200)
    await directory.refresh()
    t.same(directory.snapshot().overrides, [])
    const { body } = await call('GET', '/api/svc/audit/?limit=3', undefined, 'root')
    t.match(body, [
      { who: 'root', action: 'endpoint_release', before: { state: 'in' }, after: null },
      { action: 'endpoint_restore', before: { state: 'out' }, after: { state: 'in' } },
      { supplier: 'acme', action: 'endpoint_eject', before: null, after: { endpoint: eu } },
    ])
  })

  t.test('the last endpoint cannot be ejected by hand', async (t) => {
    t.equal((await put(eu, 'eject')).status, 200)
    t.match(await put(us, 'eject'), { status: 409, body: { code: 'last_endpoint' } })
    t.equal((await put(eu, 'eject')).status, 200, 'for longer')
    t.equal((await put(eu, 'release')).status, 200)
  })

  t.test('what cannot be read is refused with its place', async (t) => {
    for (const [body, pointer] of [
      [{ endpoint: 'https://other.example/', action: 'eject' }, '/endpoint'],
      [{ endpoint: eu, action: 'stop' }, '/action'],
      [{ endpoint: eu, action: 'eject', for: '8d' }, '/for'],
      [{ endpoint: eu, action: 'eject', for: 'long' }, '/for'],
    ] as const) {
      const { status, body: problem } = await call('PUT', path, body, 'root')
      t.ok(status === 422 || status === 400, `${status}`)
      t.equal(problem.errors[0].pointer, pointer)
    }
  })

  t.test('a reader sees its own, and changes nothing', async (t) => {
    t.equal((await call('GET', path, undefined, 'acme')).status, 200)
    t.equal((await call('GET', '/api/svc/endpoints/zeta/', undefined, 'acme')).status, 404)
    const all = await call('GET', '/api/svc/endpoints/', undefined, 'acme')
    t.match(all.body, [{ supplier: 'acme' }])
    t.equal(all.body.length, 1)
    t.equal((await put(eu, 'eject', {}, 'reader')).status, 403)
  })
})
