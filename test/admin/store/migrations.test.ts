/** Migrations complete however long they take; an old version accepts a newer schema only if it can use it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import t from 'tap'
import { openStore } from '../../../admin/store/index.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { command, newFolder } from '../../support/process.ts'
import { onBoth, silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const options = { now: Date.now, log: silent }

onBoth(async (t, database) => {
  const first = await openStore(database.url, options)
  t.ok(first.migrated.length > 0, 'the first one migrates')
  const insert = (id: string) => sql`insert into migrations (id, at) values (${id}, 1)`
  await insert('999-more').execute(first.db)
  const second = await storeAt(t, database)
  t.same(second.migrated, [], 'once, and tables of a newer version do no harm')
  await insert('required:999-other').execute(first.db)
  await first.close()
  await t.rejects(openStore(database.url, options), /newer version \(999-other\)/)
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
    t.match(stdout, /^001-core\n[\s\S]*the database is up to date\n$/)
    t.equal((await command(['migrate', '--config', file])).stdout, 'the database is up to date\n')
  },
)
