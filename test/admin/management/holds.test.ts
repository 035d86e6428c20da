/** The hold switch, and the trail of every change. */
import { path, seat, serve } from '../../support/management.ts'
import { onBoth } from '../../support/store.ts'

onBoth(async (t, database) => {
  const { call, directory } = await serve(t, database)
  await call('POST', path, { dsp_seats: [seat('s1')] })

  t.test('the hold switch, and the audit trail of it all', async (t) => {
    t.equal(
      (await call('PUT', '/api/svc/opd/*/', { hold: true })).status,
      403,
      'one account does not hold all',
    )
    t.equal((await call('PUT', '/api/svc/opd/*/', { hold: true }, 'root')).status, 200)
    t.equal((await call('PUT', '/api/svc/opd/acme', { hold: true })).status, 200)
    await directory.refresh()
    t.same([...directory.snapshot().holds].sort(), ['*', 'acme'])
    t.equal((await call('PUT', '/api/svc/opd/zeta/', { hold: true })).status, 404)
    const { body } = await call('GET', '/api/svc/audit/?limit=2')
    t.match(body[0], {
      who: 'acme',
      supplier: 'acme',
      action: 'hold',
      before: false,
      after: true,
    })
    t.ok(
      body.every(({ supplier }: { supplier: string }) => supplier === 'acme'),
      'only its own',
    )
    const odd = await call('GET', '/api/svc/audit/?ssp=a%00b', undefined, 'root')
    t.match(odd, { status: 200, body: [] })
    const first = (await call('GET', '/api/svc/audit/?limit=1000', undefined, 'root')).body.at(-1)
    t.match(first, { action: 'create', after: { dsp_seats: [{ name: 's1' }] } })
  })
})
