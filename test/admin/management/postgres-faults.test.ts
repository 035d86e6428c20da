/** Errors of PostgreSQL that are not the caller's fault are 503 with Retry-After; a bug is 500. */
import { sql } from 'kysely'
import pg from 'pg'
import t, { type Test } from 'tap'
import { createAdmin } from '../../../admin/http/server.ts'
import { entry } from '../../support/ledger-entry.ts'
import { path, seat, serve } from '../../support/management.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

async function world(t: Test) {
  const database = await startPostgres()
  t.teardown(() => database.close())
  const { call } = await serve(t, database)
  const store = await storeAt(t, database)
  const connect = async () => {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    t.teardown(() => client.end())
    return client
  }
  const admin = await connect()
  t.equal((await call('POST', path, { dsp_seats: [seat('lead')] })).status, 201)
  const put = () => call('PUT', path, { dsp_seats: [{ name: 'lead', is_active: false }] })
  const others = 'from pg_stat_activity where pid <> pg_backend_pid() and backend_type = $1'
  const ended = (which = 'true') =>
    admin.query(`select pg_terminate_backend(pid) ${others} and ${which}`, ['client backend'])
  return {
    ...{ store, call, put },
    /** A setting of every connection from now on. */
    async set(setting: string) {
      await admin.query(`alter database postgres ${setting}`)
      await ended()
      await until(async () => (await call('GET', path)).status === 200)
    },
    /** Ends the connections that wait for a lock; resolves when there was one. */
    async endWaiting() {
      const waits = "wait_event_type = 'Lock'"
      await until(async () => ((await ended(waits)).rowCount ?? 0) > 0)
    },
    /**
     * Holds the row that a PUT waits for, during a function, by a connection of its own: within a transaction
     * pg_stat_activity has only the connections of its first look at it.
     */
    async held(during: () => Promise<void>, end: 'rollback' | 'commit' = 'rollback') {
      const holder = await connect()
      await holder.query('begin')
      await holder.query('update suppliers set revision = revision')
      await during()
      await holder.query(end)
    },
    /**
     * The answer to come of a PUT that waits for a lock. One that is answered before took a connection that set() had ended,
     * and is repeated.
     */
    async waitingPut(): Promise<{ answer: ReturnType<typeof put> }> {
      let answered = false
      const ask = () => {
        answered = false
        const answer = put()
        answer.then(() => {
          answered = true
        })
        return answer
      }
      let answer = ask()
      await until(async () => {
        if (answered) answer = ask()
        const { rowCount } = await admin.query(
          "select 1 from pg_stat_activity where wait_event_type = 'Lock'",
        )
        return (rowCount ?? 0) > 0
      })
      return { answer }
    },
  }
}

type Call = Awaited<ReturnType<Awaited<ReturnType<typeof world>>['put']>>

function isAway(t: Test, { status, headers, body }: Call): void {
  t.equal(status, 503)
  t.equal(headers.get('retry-after'), '1')
  t.equal(body.code, 'store_unavailable')
}

const skip = postgresAbsent
t.test('a database that is read-only, as a replica is', { skip }, async (t) => {
  const { store, call, put, set } = await world(t)
  await set('set default_transaction_read_only = on')
  isAway(t, await put())
  t.equal((await call('GET', path)).status, 200)
  await until(async () => (await store.lost()).length === 2)
  await t.rejects(store.ledger.record(entry('a')), { name: 'StoreError', code: 'unavailable' })
  await set('reset default_transaction_read_only')
  t.equal((await put()).status, 200)
  await until(async () => (await store.lost()).length === 0)
})

t.test('a connection that ends in a transaction', { skip }, async (t) => {
  const { put, held, endWaiting } = await world(t)
  await held(async () => {
    const answer = put()
    await endWaiting()
    isAway(t, await answer)
  })
  t.equal((await put()).status, 200)
})

t.test('a lock that is not had in time', { skip }, async (t) => {
  const { put, set, held } = await world(t)
  await set("set lock_timeout = '50ms'")
  await held(async () => isAway(t, await put()))
  t.equal((await put()).status, 200)
})

t.test('a transaction that cannot be serialised', { skip }, async (t) => {
  const { put, set, held, waitingPut } = await world(t)
  await set("set default_transaction_isolation = 'serializable'")
  let waiting: Awaited<ReturnType<typeof waitingPut>> | null = null
  await held(async () => {
    waiting = await waitingPut()
  }, 'commit')
  isAway(t, await waiting!.answer)
  t.equal((await put()).status, 200)
})

t.test('a wrong statement is a bug, and reported as one', { skip }, async (t) => {
  const { store } = await world(t)
  const errors: string[] = []
  const admin = createAdmin({
    listen: '127.0.0.1:0',
    log: { ...silent, error: (_fields, message) => void errors.push(message) },
    plugins: [
      async (app) => void app.get('/wrong', async () => sql`selekt 1`.execute(store.db)),
      async (app) => void app.get('/absent', async () => sql`select x from y`.execute(store.db)),
    ],
  })
  const { port } = await admin.listen()
  t.teardown(() => admin.close())
  for (const path of ['wrong', 'absent'])
    t.equal((await fetch(`http://127.0.0.1:${port}/${path}`)).status, 500)
  t.same(errors, ['an API call failed', 'an API call failed'])
})

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
