/** Migrations run forward only and once each, also when several nodes start together. */
import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import type { Tables } from '../tables.ts'
import { schema } from './001-schema.ts'
import type { Migration } from './migration.ts'

const migrations: readonly Migration[] = [schema]

/** A row of this kind beside a migration's own: programs that do not know the migration must not start. */
const requiredPrefix = 'required:'

/** Migrations of a newer version that only add are no fault: during a rolling update both versions run. */
function refuseUnknownSchema(done: ReadonlySet<string>, list: readonly Migration[]): void {
  const known = new Set(list.map(({ id }) => id))
  const unknown = [...done]
    .filter((row) => row.startsWith(requiredPrefix))
    .map((row) => row.slice(requiredPrefix.length))
    .filter((id) => !known.has(id))
  if (unknown.length > 0)
    throw new Error(
      `the database was changed by a newer version (${unknown.sort().join(', ')}), which this one cannot use: run that version, or restore a backup from before`,
    )
}

const idsIn = async (db: Kysely<Tables>) =>
  new Set((await db.selectFrom('migrations').select('id').execute()).map(({ id }) => id))

/**
 * Reads only.
 *
 * @param db an open database
 * @throws if it was not made by this program, or has a newer schema that this version cannot use
 */
export async function checkSchema(db: Kysely<Tables>): Promise<void> {
  refuseUnknownSchema(await idsIn(db), migrations)
}

/**
 * Returns the ids of the migrations that ran. `list`: in the order in which they run.
 *
 * @param now milliseconds since 1970
 */
export async function migrate(
  db: Kysely<Tables>,
  postgres: boolean,
  now: number,
  list: readonly Migration[] = migrations,
): Promise<string[]> {
  return db.transaction().execute(async (trx) => {
    // Nodes on PostgreSQL wait for each other here. A transaction of SQLite is exclusive anyway.
    if (postgres) await sql`select pg_advisory_xact_lock(4217001)`.execute(trx)
    await trx.schema
      .createTable('migrations')
      .ifNotExists()
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .execute()
    const done = await idsIn(trx)
    refuseUnknownSchema(done, list)
    const ran: string[] = []
    for (const { id, up, required = false } of list) {
      if (done.has(id)) continue
      await up(trx, postgres)
      const rows = required ? [id, requiredPrefix + id] : [id]
      await trx
        .insertInto('migrations')
        .values(rows.map((row) => ({ id: row, at: now })))
        .execute()
      ran.push(id)
    }
    return ran
  })
}
