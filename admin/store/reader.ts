/** A read-only connection beside that of the store, so that no win waits for long queries. */
import { Kysely } from 'kysely'
import { sqliteDialect } from './sqlite.ts'
import type { Tables } from './tables.ts'

/** Milliseconds: a report over a year may take long. */
const longest = 60_000

/**
 * A connection that only reads, for another thread. The caller destroys it.
 *
 * @param url of `store.database`
 * @throws if the database cannot be opened
 */
export async function openReader(url: string): Promise<{ db: Kysely<Tables>; postgres: boolean }> {
  const postgres = !url.startsWith('sqlite:')
  const dialect = postgres
    ? // the next query opens another connection, or fails
      (await import('./postgres.ts')).postgresDialect(url, {
        max: 1,
        longest,
        idle: 5000,
        lost: () => undefined,
      })
    : sqliteDialect(url.slice(7), { create: false, owns: false })
  return { db: new Kysely<Tables>({ dialect }), postgres }
}
