/** A connection that reads beside the store's own: no win waits for what it asks. */
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { sqliteDialect } from './sqlite.ts'
import type { Tables } from './tables.ts'

/** Milliseconds: a report over a year may take its time, but not for ever. */
const longest = 60_000

export function openReader(url: string): { db: Kysely<Tables>; postgres: boolean } {
  if (url.startsWith('sqlite:'))
    return { db: new Kysely<Tables>({ dialect: sqliteDialect(url.slice(7)) }), postgres: false }
  const pool = new pg.Pool({
    connectionString: url,
    max: 1,
    connectionTimeoutMillis: 3000,
    idleTimeoutMillis: 5000,
    statement_timeout: longest,
    query_timeout: longest + 2000,
  })
  // the next question opens another connection, and says so where it cannot
  pool.on('error', () => undefined)
  return { db: new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) }), postgres: true }
}
