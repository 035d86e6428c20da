/** A database that does not answer in time is told as one that is away: the call may come again. */
import { sql } from 'kysely'
import t from 'tap'
import { path, serve } from '../../support/management.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

t.test('a statement that PostgreSQL ends', { skip: postgresAbsent }, async (t) => {
  const database = await startPostgres()
  t.teardown(() => database.close())
  const { call } = await serve(t, database)
  const { db } = await storeAt(t, database)
  const answer = await db.transaction().execute(async (held) => {
    await sql`lock table seats`.execute(held)
    const answer = call('GET', path)
    // what `statement_timeout` does, without the wait for it
    const ended = async () => {
      const { rows } = await sql<{ ended: boolean }>`
        select pg_cancel_backend(pid) as ended from pg_stat_activity
        where wait_event_type = 'Lock'`.execute(held)
      return rows.length > 0
    }
    await until(ended)
    return { answer }
  })
  const { status, headers, body } = await answer.answer
  t.equal(status, 503)
  t.equal(headers.get('retry-after'), '1')
  t.equal(body.code, 'store_unavailable')
  t.equal((await call('GET', path)).status, 200)
})
