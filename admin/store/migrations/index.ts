/** Migrations run forward only and once each, also when several nodes start together. */
import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import type { Tables } from '../tables.ts'
import { core } from './001-core.ts'
import { auth } from './002-auth.ts'
import { refreshExpiry } from './003-refresh-expiry.ts'
import { hours } from './004-hours.ts'
import { staleHours } from './005-stale-hours.ts'
import { userStates } from './006-user-states.ts'
import { models } from './007-models.ts'
import { nodes } from './008-nodes.ts'
import { nodeFigures } from './009-node-figures.ts'
import { losses } from './010-losses.ts'
import { seats } from './011-seats.ts'
import { ledgerDays } from './012-ledger-days.ts'
import { armSums } from './013-arm-sums.ts'
import { eventMarks } from './014-event-marks.ts'
import { takenOff } from './015-taken-off.ts'
import { modelBus } from './016-model-bus.ts'
import type { Migration } from './migration.ts'

export const migrations: readonly Migration[] = [
  core,
  auth,
  refreshExpiry,
  hours,
  staleHours,
  userStates,
  models,
  nodes,
  losses,
  nodeFigures,
  seats,
  ledgerDays,
  armSums,
  eventMarks,
  takenOff,
  modelBus,
]

/** A row of this kind beside a migration's own: programs that do not know the migration must not start. */
const requiredPrefix = 'required:'

/** Migrations of a newer version that only add are no fault: during a rolling update both versions run. */
function refuseUnknownSchema(done: ReadonlySet<string>): void {
  const known = new Set(migrations.map(({ id }) => id))
  const unknown = [...done]
    .filter((row) => row.startsWith(requiredPrefix))
    .map((row) => row.slice(requiredPrefix.length))
    .filter((id) => !known.has(id))
  if (unknown.length > 0)
    throw new Error(
      `the database was changed by a newer version (${unknown.sort().join(', ')}), which this one cannot use: run that version, or restore a backup from before`,
    )
}

/** Returns the ids of the migrations that ran. */
export async function migrate(
  db: Kysely<Tables>,
  postgres: boolean,
  now: number,
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
    const done = new Set(
      (await trx.selectFrom('migrations').select('id').execute()).map(({ id }) => id),
    )
    refuseUnknownSchema(done)
    const ran: string[] = []
    for (const { id, up, required = false } of migrations) {
      if (done.has(id)) continue
      await up(trx, postgres, now)
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
