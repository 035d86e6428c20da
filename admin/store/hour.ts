/**
 * Hours: their start, the key of their sums, and stale ones, whose rows have changed after the end of the hour, so that
 * their sums in `ledger_hours` may be wrong. Reports read the rows of a stale hour until it is summed again. The mark is
 * written in the transaction of the change.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Tables } from './tables.ts'

export const hour = 3_600_000
export const day = 24 * hour

/** The start of the hour of a time, also before 1970. */
export const hourOf = (at: number): number => at - (((at % hour) + hour) % hour)

/** The primary key of `ledger_hours`. */
export const hourKey = [
  'hour',
  'supplier',
  'event',
  'status',
  'mode',
  'arm',
  'publisher',
  'domain',
  'currency',
] as const

/** Marks the hours of `rows`, a table with a column `at`, that have ended by `now`. */
export const markStale = (rows: RawBuilder<unknown>, now: RawBuilder<unknown>) => {
  const begin = sql`at - at % ${sql.lit(hour)}`
  return sql`insert into stale_hours (hour, changes)
    select distinct ${begin}, 1 from ${rows} where ${begin} + ${sql.lit(hour)} <= ${now}
    on conflict (hour) do update set changes = stale_hours.changes + 1`
}

/** The marks in order of time. */
export const staleHours = (db: Kysely<Tables>): Promise<Tables['stale_hours'][]> =>
  db.selectFrom('stale_hours').selectAll().orderBy('hour').execute()

/** Removes a mark, unless the hour has changed again since the mark was read. */
export async function clearStale(
  db: Kysely<Tables>,
  { hour, changes }: Tables['stale_hours'],
): Promise<void> {
  await sql`delete from stale_hours where hour = ${hour} and changes = ${changes}`.execute(db)
}
