/**
 * Hours whose rows of the ledger have changed after their end, so that their sums may be wrong. Reports read the rows of
 * such an hour until it is summed again. The mark is written in the transaction of the change.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { hour } from './hour.ts'
import type { Tables } from './tables.ts'

/** Marks the hours of `rows`, a table with a column `at`, that have ended by `now`. */
export const markStale = (rows: RawBuilder<unknown>, now: RawBuilder<unknown>) => {
  const begin = sql`at - at % ${sql.lit(hour)}`
  return sql`insert into stale_hours (hour, changes)
    select distinct ${begin}, 1 from ${rows} where ${begin} + ${sql.lit(hour)} <= ${now}
    on conflict (hour) do update set changes = stale_hours.changes + 1`
}

/**
 * The marks in order of time.
 *
 * @param db of all nodes
 */
export const staleHours = (db: Kysely<Tables>): Promise<Tables['stale_hours'][]> =>
  db.selectFrom('stale_hours').selectAll().orderBy('hour').execute()

/** Removes a mark, unless the hour has changed again since the mark was read. */
export async function clearStale(
  db: Kysely<Tables>,
  { hour, changes }: Tables['stale_hours'],
): Promise<void> {
  await sql`delete from stale_hours where hour = ${hour} and changes = ${changes}`.execute(db)
}
