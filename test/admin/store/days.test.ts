/** PostgreSQL: the ledger is partitioned by the day of the decision; days are dropped, and one decision is one row. */
import { sql } from 'kysely'
import pg from 'pg'
import t from 'tap'
import { Retention } from '../../../admin/store/retention.ts'
import { entry, unplaced } from '../../support/ledger-entry.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { silent, storeAt } from '../../support/store.ts'

const hour = 3_600_000
const day = 24 * hour
const start = Math.floor(1_600_000_000_000 / day) * day

t.test('PostgreSQL', { skip: postgresAbsent }, async (t) => {
  const postgres = await startPostgres()
  t.teardown(() => postgres.close())
  let now = start
  const options = { now: () => now, log: silent }
  const store = await storeAt(t, postgres, options)
  const other = await storeAt(t, postgres, options)
  const retention = new Retention(store, { ...options, keep: () => 5 * day, pauseMs: 0 })
  t.teardown(() => retention.close())
  const { ledger } = store
  const same = (since: number) => ({ since, supplier: 'acme' })
  const rowsOf = async (bidId: string) => {
    const { rows } = await sql<{ decision: string; status: string; partition: string }>`
      select decision, status, tableoid::regclass::text as partition
      from ledger_days where bid_id = ${bidId} order by day`.execute(store.db)
    return rows
  }
  const days = async () => {
    const { rows } = await sql<{ name: string }>`
      select inhrelid::regclass::text as name from pg_inherits
      where inhparent = 'ledger_days'::regclass`.execute(store.db)
    return rows.map(({ name }) => name).sort()
  }
  const win = (decision: string, decidedAt: number, time = decidedAt) =>
    entry(decision, { bid_id: decision, decided_at: decidedAt, at: time })

  t.test('a decision is one row, on whichever day its notices arrive', async (t) => {
    now = start + 20 * day
    const decidedAt = now - 2000
    const notices = [decidedAt, now + day, now + 2 * day].flatMap((time) =>
      [store, other].map((store) =>
        store.ledger.record(win('one', decidedAt, time), same(decidedAt)),
      ),
    )
    const answers = await Promise.all(notices)
    t.equal(answers.filter((answer) => answer === 'recorded').length, 1)
    t.match(await rowsOf('one'), [{ partition: `ledger_day_${(decidedAt / day) | 0}` }])
  })

  t.test('a win without context is one row over midnight, and becomes attributed', async (t) => {
    const midnight = start + 21 * day
    now = midnight + 5
    const bare = (time: number) => unplaced('bid:late', { bid_id: 'late', at: time })
    const any = { since: midnight - 10_000, supplier: null }
    await Promise.all([
      ledger.record(bare(midnight - 5), any),
      other.ledger.record(bare(midnight + 5), any),
    ])
    t.equal((await rowsOf('late')).length, 1)
    t.equal(await ledger.record(bare(midnight + 6), any), 'duplicate')
    const attributed = entry('d late', { bid_id: 'late', decided_at: midnight - 100, at: now })
    t.equal(await other.ledger.record(attributed, same(midnight - 6000)), 'recorded')
    t.match(await rowsOf('late'), [{ decision: 'd late', status: 'attributed' }])
  })

  t.test(
    'a notice of a summed hour, from a node whose clock is behind, is in the sums',
    async (t) => {
      now = start + 30 * day
      await retention.run()
      const time = now - 2 * hour
      t.equal(await other.ledger.record(win('behind', time), same(time - 1)), 'recorded')
      await retention.run()
      const { n } = await store.db
        .selectFrom('ledger_hours')
        .select(({ fn }) => fn.sum('n').as('n'))
        .where('hour', '=', time)
        .executeTakeFirstOrThrow()
      t.equal(Number(n), 1)
    },
  )

  t.test('days are dropped when all their notices are old enough, not row by row', async (t) => {
    const first = start + 40 * day
    now = first + hour
    await ledger.record(win('old', first), same(first - 1))
    // decided on the first day, and reported two days later
    now = first + 2 * day
    await ledger.record(win('slow', first, now), same(first - 1))
    const name = `ledger_day_${first / day}`
    t.ok((await days()).includes(name))
    now = first + 7 * day
    await retention.run()
    t.ok((await days()).includes(name), 'a notice of it is younger than what is kept')
    now = first + 9 * day
    await retention.run()
    t.notOk((await days()).includes(name))
    t.ok((await days()).includes(`ledger_day_${now / day + 5}`), 'coming days are there')
    // the other node has known that day
    t.equal(await other.ledger.record(win('again', first, now), same(first - 1)), 'recorded')
    t.equal(await ledger.record(win('again', first, now), same(first - 1)), 'duplicate')
  })

  t.test('a day is not dropped while a report reads it, and wins go on', async (t) => {
    // The days before go, because each day that is read costs the wait for its lock.
    now += 30 * day
    await retention.run()
    const read = `ledger_day_${Math.floor(now / day)}`
    const reader = new pg.Client({ connectionString: postgres.url })
    await reader.connect()
    t.teardown(() => reader.end())
    await reader.query('begin')
    await reader.query('select count(*) from ledger_days')
    now += 7 * day
    const before = await days()
    t.ok(before.includes(read))
    await retention.run()
    const kept = new Set(await days())
    t.ok(before.every((name) => kept.has(name)))
    t.equal(await ledger.record(win('meanwhile', now), same(now - 1)), 'recorded')
    await reader.query('commit')
    await retention.run()
    const left = await days()
    t.notOk(left.includes(read))
    t.ok(left.includes(`ledger_day_${Math.floor(now / day)}`), 'younger days stay')
  })
})
