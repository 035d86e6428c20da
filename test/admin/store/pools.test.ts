/** On PostgreSQL wins have connections of their own: as many as may wait for a locked ledger, and none of the API's. */
import { sql } from 'kysely'
import pg from 'pg'
import t from 'tap'
import { openStore } from '../../../admin/store/index.ts'
import { freePort, postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

t.test(
  'wins that wait for a connection do not delay the API',
  { skip: postgresAbsent },
  async (t) => {
    const server = await startPostgres()
    t.teardown(() => server.close())
    const store = await storeAt(t, server)
    const other = new pg.Client({ connectionString: server.url })
    await other.connect()
    t.teardown(() => other.end())
    await other.query('begin')
    await other.query('lock table ledger_days')
    const waiting = Array.from({ length: 12 }, () =>
      sql`select count(*) from ledger_days`.execute(store.wins).then(
        () => 'read',
        () => 'refused',
      ),
    )
    const locked = `select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock'`
    await until(async () => {
      await other.query('select pg_stat_clear_snapshot()')
      return (await other.query<{ n: number }>(locked)).rows[0]!.n >= 4
    })
    // More than there are connections for management.
    const reads = Array.from({ length: 12 }, () => sql`select n from revision`.execute(store.db))
    t.equal((await Promise.all(reads)).length, 12, 'management goes on')
    await other.query('rollback')
    t.ok((await Promise.all(waiting)).includes('read'))
  },
)

t.test('a PostgreSQL that cannot be reached is named, without its password', async (t) => {
  const port = await freePort()
  await t.rejects(
    openStore(`postgres://bidweir:secret@127.0.0.1:${port}/bids`, {
      now: Date.now,
      log: silent,
    }),
    { message: `PostgreSQL at 127.0.0.1:${port}/bids: connect ECONNREFUSED 127.0.0.1:${port}` },
  )
})
