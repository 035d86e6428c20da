/** Connection pools for PostgreSQL, each with a maximum size and a statement timeout. */
import { type Dialect, PostgresDialect, type PostgresPoolClient } from 'kysely'
import pg from 'pg'
import { StoreError, storeErrorOf } from './errors.ts'

// int8 columns contain counts and milliseconds, which fit a double.
pg.types.setTypeParser(20, Number)

export interface PoolOptions {
  /** Connections. */
  max: number
  /** Statement timeout in milliseconds; null: none. The client waits a second longer for a server that hangs. */
  longest: number | null
  /** Milliseconds until an idle connection is closed. */
  idle?: number
  /** Called when an idle connection is lost. */
  lost(error: Error): void
}

/** A connection of the pool that one caller uses. */
function clientOf(client: pg.PoolClient): PostgresPoolClient {
  let broken: Error | undefined
  const query = async (sql: string, parameters: unknown[]) => {
    if (broken !== undefined) throw broken
    try {
      return await client.query(sql, parameters)
    } catch (error) {
      const failure = storeErrorOf(error)
      // there was no response, so that any next statement, even a rollback, would wait for this one
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
    // The server ends a statement that hangs; the client gives up on a server that hangs.
    ...(longest === null
      ? { keepAlive: true }
      : { statement_timeout: longest, query_timeout: longest + 1000 }),
  })
  // A lost connection must not throw at the top level, whether it is idle or between two statements of a transaction
  // (the pool does not handle that case). Its statements fail, and the next query opens another connection.
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
