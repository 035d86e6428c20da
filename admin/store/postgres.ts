/** Pools of connections to PostgreSQL, each with a size and a time that a statement may take. */
import { type Dialect, PostgresDialect, type PostgresPoolClient } from 'kysely'
import pg from 'pg'
import { StoreError, storeErrorOf } from './errors.ts'

// int8 fits a double here: counts and times in milliseconds.
pg.types.setTypeParser(20, Number)

export interface PoolOptions {
  /** Connections. */
  max: number
  /** Milliseconds that the server gives a statement; a server that hangs has a second more. */
  longest: number
  /** Milliseconds that a connection is kept without work. */
  idle?: number
  /** A connection died while nothing waited for it. */
  lost(error: Error): void
}

/** A connection of the pool, taken by one caller. */
function clientOf(client: pg.PoolClient): PostgresPoolClient {
  let broken: Error | undefined
  const query = async (sql: string, parameters: unknown[]) => {
    if (broken !== undefined) throw broken
    try {
      return await client.query(sql, parameters)
    } catch (error) {
      const failure = storeErrorOf(error)
      // the server has not answered, so the next statement, a rollback too, would wait behind this one
      if (failure instanceof StoreError && !(error instanceof pg.DatabaseError)) broken = failure
      throw failure
    }
  }
  return {
    query: query as unknown as PostgresPoolClient['query'],
    release: () => client.release(broken),
  }
}

export function postgresDialect(url: string, options: PoolOptions): Dialect {
  const { max, longest, idle = 10_000, lost } = options
  const pool = new pg.Pool({
    connectionString: url,
    max,
    connectionTimeoutMillis: 3000,
    idleTimeoutMillis: idle,
    // A statement that hangs would hold its caller for ever, a server that hangs does not end it.
    statement_timeout: longest,
    query_timeout: longest + 1000,
  })
  // A connection that dies must not reach the top, idle or between two statements of a transaction (there the pool
  // hears nothing): what it was doing fails, the next query opens another.
  pool.on('error', lost)
  pool.on('connect', (client) => client.on('error', lost))
  return new PostgresDialect({
    pool: {
      async connect() {
        try {
          return clientOf(await pool.connect())
        } catch (error) {
          throw storeErrorOf(error)
        }
      },
      end: () => pool.end(),
    },
  })
}
