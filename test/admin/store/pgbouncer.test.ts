/** Everything works behind PgBouncer in transaction mode, where each statement may use another connection. */
import t from 'tap'
import { readRows } from '../../../admin/reports/rows.ts'
import { openReader } from '../../../admin/store/reader.ts'
import { Retention } from '../../../admin/store/retention.ts'
import { entry } from '../../support/ledger-entry.ts'
import { pgBouncerAbsent, startPgBouncer } from '../../support/pgbouncer.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const hour = 3_600_000
const start = Math.floor(1_600_000_000_000 / hour) * hour

t.test('PgBouncer', { skip: postgresAbsent || pgBouncerAbsent }, async (t) => {
  const postgres = await startPostgres()
  const bouncer = await startPgBouncer(postgres.url, 4)
  t.teardown(async () => {
    await bouncer.close()
    await postgres.close()
  })

  t.test('wins, sums and reports', async (t) => {
    let now = start
    const options = { now: () => now }
    const stores = [await storeAt(t, bouncer, options), await storeAt(t, bouncer, options)]
    const [store] = stores as [(typeof stores)[number]]
    const win = (n: number) => entry(`d${n}`, { bid_id: `b${n}`, decided_at: now, at: now + n })
    const same = { since: now - 1, supplier: 'acme' }
    const answers = await Promise.all(
      stores.flatMap(({ ledger }) =>
        Array.from({ length: 300 }, (_, n) => ledger.record(win(n), same)),
      ),
    )
    t.equal(answers.filter((answer) => answer === 'recorded').length, 300)
    now += 2 * hour
    const retention = new Retention(store, {
      ...{ keep: () => 5 * 24 * hour, now: () => now, log: silent, pauseMs: 0 },
    })
    t.teardown(() => retention.close())
    // other statements take connections between those of the sums
    let summing = true
    const sums = retention.run().finally(() => {
      summing = false
    })
    while (summing) await store.ledger.record(win(0), same)
    await sums
    const reader = await openReader(bouncer.url)
    t.teardown(() => reader.db.destroy())
    const scope = { suppliers: ['acme'], all: true, from: start, to: now, by: 'ssp' } as const
    t.match(await readRows(reader, scope, { notices: {}, rates: { USD: 1 }, base: 'USD' }), [
      { key: 'acme', wins: 300, margin: '75' },
    ])
  })

  t.test('two whole nodes', async (t) => {
    const supplier = await echoSupplier()
    const key = Buffer.alloc(32, 9).toString('base64url')
    const options = {
      endpoint: supplier.url,
      more: `store: {database: "${bouncer.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    }
    const one = await serveNode(options)
    const two = await serveNode(options)
    t.teardown(() => Promise.all([one.stop(), two.stop(), supplier.close()]))
    const { svcOpd } = await one.bid({ id: 'b' })
    const notice = { bid_id: 'b', price: '0.5', svc_opd: svcOpd }
    t.match(await two.notify(notice), { http: 200, body: { status: 'attributed' } })
    t.match(await one.notify(notice), { http: 200, body: { status: 'duplicate' } })
    const hold = await one.api('/api/svc/opd/acme/', {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: '{"hold": true}',
    })
    t.equal(hold.status, 200)
    await until(async () => {
      const bid = await two.bid({ id: crypto.randomUUID(), price: 1.5 })
      return bid.in === bid.out
    })
    t.match(await one.report('wins?ssp=acme'), [{ wins: 1 }])
  })
})
