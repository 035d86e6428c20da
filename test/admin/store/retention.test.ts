/** Rows older than the retention time are deleted, and no others, on both databases. */

import { Retention } from '../../../admin/store/retention.ts'
import { ledgerTable } from '../../../admin/store/tables.ts'
import { entry } from '../../support/ledger-entry.ts'
import { onBoth, silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const day = 86_400_000
const now = 1_790_000_000_000
const win = (decision: string, time: number) => entry(decision, { at: time, decided_at: time })

onBoth(async (t, database) => {
  const store = await storeAt(t, database, { now: () => now })
  const retention = new Retention(store, {
    keep: () => 10 * day,
    now: () => now,
    log: silent,
    pauseMs: 0,
  })
  t.teardown(() => retention.close())
  const old = Array.from({ length: 1200 }, (_, n) => win(`d${n}`, now - 11 * day))
  const young = Array.from({ length: 30 }, (_, n) => win(`young ${n}`, now - 9 * day))
  await Promise.all([...old, ...young].map((entry) => store.ledger.record(entry)))
  await store.db
    .insertInto('decided')
    .values(
      [20, 2].map((days) => ({
        hour: now - days * day,
        supplier: 'acme',
        mode: 'revenue',
        arm: 'treated',
        via: 'proxy',
        publisher: '',
        domain: '',
        bids: 1,
        in_sum: 1,
        out_sum: 1,
      })),
    )
    .execute()
  // PostgreSQL drops whole days
  t.equal(await retention.run(), store.postgres ? 0 : 1200)
  const left = await store.db.selectFrom(ledgerTable(store.postgres)).select('at').execute()
  t.equal(left.length, 30)
  t.equal(
    (await store.db.selectFrom('decided').select('hour').execute()).length,
    2,
    'roll-ups stay',
  )
  t.equal(await retention.run(), 0)
  if (store.postgres) return

  t.test('the node that deletes keeps the lease, however long it takes', async (t) => {
    const many = Array.from({ length: 8000 }, (_, n) => entry(`many ${n}`, { at: now - 10 * day }))
    await Promise.all(many.map((entry) => store.ledger.record(entry)))
    let clock = now
    // every slice takes 150 s, whatever this machine takes
    const db = store.db.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        if ((result.numAffectedRows ?? 0n) >= 200n) clock += 150_000
        return result
      },
    })
    const options = { keep: () => 9 * day, now: () => clock, log: silent, pauseMs: 0 }
    const one = new Retention({ ...store, db }, options)
    const other = new Retention(store, options)
    t.teardown(() => {
      one.close()
      other.close()
    })
    let working = true
    const gone = one.run().finally(() => {
      working = false
    })
    const lease = () => store.db.selectFrom('rolled').select('lease').executeTakeFirstOrThrow()
    await until(async () => Number((await lease()).lease) > 0)
    let taken = 0
    while (working) taken += await other.run()
    t.ok(clock > now + 400_000, 'longer than one lease')
    t.equal(taken, 0)
    t.equal(await gone, many.length)
  })

  t.test('slices grow to thousands of rows while they are quick, and shrink again', async (t) => {
    const many = Array.from({ length: 9500 }, (_, n) => entry(`more ${n}`, { at: now - 11 * day }))
    await Promise.all(many.map((entry) => store.ledger.record(entry)))
    let slices: number[] = []
    const db = store.db.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        if ((result.numAffectedRows ?? 0n) >= 200n) slices.push(Number(result.numAffectedRows))
        return result
      },
    })
    // Quick for the first 4000 rows, then slow.
    let clock = 0
    const deleted = () => slices.reduce((sum, rows) => sum + rows, 0)
    const options = { keep: () => 10 * day, now: () => now, log: silent, pauseMs: 0 }
    const retention = new Retention(
      { ...store, db },
      { ...options, clock: () => (clock += deleted() < 4000 ? 1 : 100) },
    )
    t.teardown(() => retention.close())
    slices = []
    t.equal(await retention.run(), many.length)
    t.same(slices, [200, 400, 800, 1600, 3200, 1600, 800, 400, 200, 200])
  })
})
