/** Duplicate notices are counted once each, with any text and while the store is lost, on both databases. */
import { sql } from 'kysely'
import type { Store } from '../../../admin/store/index.ts'
import { createDuplicateCounts } from '../../../admin/store/rollup.ts'
import { onBoth, recordingLog, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const now = 1_790_000_000_000
const duplicate = (over: object = {}) => ({
  supplier: 'acme',
  event: 'win',
  mode: 'revenue',
  via: 'proxy',
  publisher: 'p',
  domain: 'd',
  seat: '',
  at: now,
  ...over,
})

const counted = async ({ db }: Store, supplier: string) => {
  const rows = await db
    .selectFrom('ledger_hours')
    .select(['publisher', 'n'])
    .where('supplier', '=', supplier)
    .orderBy('publisher')
    .execute()
  return rows.map(({ publisher, n }) => [publisher, Number(n)])
}

onBoth(async (t, database) => {
  const { warnings, log } = recordingLog()
  const store = await storeAt(t, database, { now: () => now })
  const duplicates = createDuplicateCounts(store, log)
  t.teardown(() => duplicates.close())

  t.test('beyond 5,000 rows publisher and domain are dropped, and no notice is', async (t) => {
    for (let n = 0; n < 5010; n++)
      duplicates.count(duplicate({ supplier: 'many', publisher: `p${String(n).padStart(4, '0')}` }))
    duplicates.count(duplicate({ supplier: 'many', publisher: 'p0000' }))
    await duplicates.flush()
    const rows = await counted(store, 'many')
    t.same(rows.slice(0, 3), [
      ['', 10],
      ['p0000', 2],
      ['p0001', 1],
    ])
    t.equal(rows.length, 5001)
    t.same(warnings, [])
  })

  t.test('a flush during a flush covers the rows of both', async (t) => {
    let early = false
    const both = await store.db.transaction().execute(async (held) => {
      if (store.postgres) await sql`lock table ledger_hours`.execute(held)
      duplicates.count(duplicate({ supplier: 'slow' }))
      const first = duplicates.flush()
      const second = duplicates.flush().then(() => {
        early = true
      })
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
      t.notOk(early, 'the first is not written yet')
      return { done: Promise.all([first, second]) }
    })
    await both.done
    t.same(await counted(store, 'slow'), [['p', 1]])
  })

  if (database.stop === undefined) return
  t.test('two nodes that write the same rows do not lock each other out', async (t) => {
    const other = createDuplicateCounts(await storeAt(t, database, { now: () => now }), log)
    t.teardown(() => other.close())
    const names = ['a', 'b', 'm']
    const count = (to: typeof duplicates, publishers: string[]) => {
      for (const publisher of publishers) to.count(duplicate({ supplier: 'both', publisher }))
    }
    count(duplicates, names)
    await duplicates.flush()
    count(duplicates, ['a', 'm', 'b'])
    count(other, ['b', 'm', 'a'])
    const both = await store.db.transaction().execute(async (held) => {
      await held
        .updateTable('ledger_hours')
        .set({ n: 1 })
        .where('supplier', '=', 'both')
        .where('publisher', '=', 'm')
        .execute()
      const done = Promise.all([duplicates.flush(), other.flush()])
      const waiting = async () => {
        const { rows } = await sql<{ n: number }>`
          select count(*) as n from pg_stat_activity where wait_event_type = 'Lock'`.execute(held)
        return Number(rows[0]!.n)
      }
      await until(async () => (await waiting()) === 2)
      return { done }
    })
    await both.done
    t.same(warnings, [])
    t.same(
      await counted(store, 'both'),
      names.map((name) => [name, 3]),
    )
  })

  t.test('a row that the database rejects does not delay the others', async (t) => {
    duplicates.count(duplicate({ supplier: 'no\0supplier' }))
    duplicates.count(duplicate({ supplier: 'zeta' }))
    await duplicates.flush()
    t.same(await counted(store, 'zeta'), [['p', 1]])
    t.same(warnings.splice(0), ['duplicate notices were rejected by the database'])
    duplicates.count(duplicate({ supplier: 'zeta' }))
    await duplicates.flush()
    t.same(await counted(store, 'zeta'), [['p', 2]])
    t.same(warnings, [], 'it is gone')
  })

  t.test('while the store is lost, duplicates wait, and are then written once', async (t) => {
    for (let n = 0; n < 250; n++) duplicates.count(duplicate({ publisher: `p${n}` }))
    await database.stop!()
    await duplicates.flush()
    t.same(warnings.splice(0), ['duplicate notices could not be written and will be retried'])
    duplicates.count(duplicate({ publisher: 'p7' }))
    await database.start!()
    const again = async (): Promise<void> => {
      await duplicates.flush()
      if (warnings.splice(0).length > 0) await again()
    }
    await again()
    const rows = await counted(store, 'acme')
    t.equal(rows.length, 250)
    t.same(
      rows.filter(([, n]) => n !== 1),
      [['p7', 2]],
    )
  })
})
