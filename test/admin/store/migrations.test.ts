/** Migrations run once and complete however long they take; a version starts on a newer schema only if it can use it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import t, { type Test } from 'tap'
import { openStore } from '../../../admin/store/index.ts'
import { schema } from '../../../admin/store/migrations/001-schema.ts'
import { migrate } from '../../../admin/store/migrations/index.ts'
import { type Migration, migration } from '../../../admin/store/migrations/migration.ts'
import { entry } from '../../support/ledger-entry.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { command, newFolder } from '../../support/process.ts'
import { type Database, onBoth, silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const options = { now: Date.now, log: silent }
const second = migration('002-made-up', () => [
  'alter table suppliers add column made_up text',
  'create table made_up (id text primary key)',
])

/** The store that this version opens, and the version with one more migration. */
async function versions(t: Test, database: Database) {
  const store = await storeAt(t, database)
  const migrateToNext = (next: Migration) =>
    migrate(store.db, store.postgres, Date.now(), [schema, next])
  return { store, migrateToNext }
}

onBoth(async (t, database) => {
  const { store, migrateToNext } = await versions(t, database)
  t.same(store.migrated, ['001-schema'], 'the first node creates the schema')
  await store.db.insertInto('suppliers').values({ id: 'acme', revision: 1 }).execute()
  t.same(await migrateToNext(second), ['002-made-up'], 'the next version runs what is new')
  t.same(await migrateToNext(second), [], 'once')
  const rows = await sql`select * from suppliers`.execute(store.db)
  t.match(rows.rows, [{ id: 'acme', made_up: null }], 'rows stay')

  const beside = await storeAt(t, database)
  t.same(beside.migrated, [], 'this version starts on the schema of the next one')
  t.equal(await beside.ledger.record(entry('one')), 'recorded')
})

onBoth(async (t, database) => {
  const { migrateToNext } = await versions(t, database)
  await migrateToNext({ ...second, required: true })
  await t.rejects(
    openStore(database.url, options),
    /newer version \(002-made-up\), which this one cannot use/,
    'this version does not start on a schema that it cannot use',
  )
})

onBoth(async (t, database) => {
  const { store, migrateToNext } = await versions(t, database)
  const broken = migration('002-broken', () => ['create table made_up (id text)', 'no SQL'])
  await t.rejects(migrateToNext(broken))
  t.same(await migrateToNext(second), ['002-made-up'], 'a migration that fails leaves nothing')
  t.equal(await store.ledger.record(entry('one')), 'recorded')
})

t.test(
  'PostgreSQL: a start waits for the migration of another node',
  {
    skip: postgresAbsent,
  },
  async (t) => {
    const postgres = await startPostgres()
    const other = new pg.Client({ connectionString: postgres.url })
    await other.connect()
    t.teardown(async () => {
      await other.end()
      await postgres.close()
    })
    await other.query('begin')
    await other.query('select pg_advisory_xact_lock(4217001)')
    const file = join(newFolder(), 'bidweir.yaml')
    const key = Buffer.alloc(32).toString('base64url')
    writeFileSync(
      file,
      `store: {database: "${postgres.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}\n`,
    )
    let ended = false
    const migrating = command(['migrate', '--config', file]).finally(() => {
      ended = true
    })
    // longer than a statement of the service may take, and than its client waits
    const waiting = `select 1 from pg_stat_activity where wait_event = 'advisory' and query_start < clock_timestamp() - interval '6.5 seconds'`
    // within one transaction the view does not change
    const watch = async () => {
      await other.query('select pg_stat_clear_snapshot()')
      return (await other.query(waiting)).rowCount === 1
    }
    await until(async () => ended || (await watch()))
    await other.query('rollback')
    const { code, stdout, stderr } = await migrating
    t.equal(code, 0, stderr)
    t.match(stdout, /^001-schema\nthe database is up to date\n$/)
    t.equal((await command(['migrate', '--config', file])).stdout, 'the database is up to date\n')
  },
)
