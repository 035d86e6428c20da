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
import { losses } from './010-losses.ts'
import { nodeFigures } from './009-node-figures.ts'
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
]

export async function migrate(db: Kysely<Tables>, postgres: boolean, now: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
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
    for (const migration of migrations) {
      if (done.has(migration.id)) continue
      await migration.up(trx, postgres)
      await trx.insertInto('migrations').values({ id: migration.id, at: now }).execute()
    }
  })
}
