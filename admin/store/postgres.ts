/**
 * PostgreSQL: connection pools, each with a maximum size and a statement timeout, and notifications of changes.
 */
import { type Dialect, PostgresDialect, type PostgresPoolClient } from 'kysely'
import pg from 'pg'
import type { Log } from '../../opd/base/log.ts'
import { StoreError, storeErrorOf } from './errors.ts'

// int8 columns contain counts and milliseconds, which fit a double.
pg.types.setTypeParser(20, Number)

interface PoolOptions {
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
    // kysely also declares a query by cursor, which nothing here uses.
    query: query as unknown as PostgresPoolClient['query'],
    release: () => client.release(broken),
  }
}

/** PgBouncer refuses a connection that sets a statement timeout, since it shares the connections of the server. */
const isRefusedParameter = (error: unknown): boolean =>
  (error as { code?: unknown }).code === '08P01' &&
  /startup parameter/.test((error as Error).message)

export function postgresDialect(url: string, options: PoolOptions): Dialect {
  const { max, longest, idle = 10_000, lost } = options

  function open(serverLimit: boolean): pg.Pool {
    const pool = new pg.Pool({
      connectionString: url,
      max,
      connectionTimeoutMillis: 3000,
      idleTimeoutMillis: idle,
      // The server ends a statement that hangs; the client gives up on a server that hangs.
      ...(longest === null ? { keepAlive: true } : { query_timeout: longest + 1000 }),
      ...(longest !== null && serverLimit ? { statement_timeout: longest } : {}),
    })
    // A lost connection must not throw at the top level, whether it is idle or between two statements of a transaction
    // (the pool does not handle that case). Its statements fail, and the next query opens another connection.
    pool.on('error', lost)
    pool.on('connect', (client) => client.on('error', lost))
    return pool
  }

  let pool = open(true)
  async function connect(): Promise<pg.PoolClient> {
    const used = pool
    try {
      return await used.connect()
    } catch (error) {
      if (!isRefusedParameter(error)) throw error
      // the limit of the client remains
      if (pool === used) pool = open(false)
      return pool.connect()
    }
  }
  return new PostgresDialect({
    pool: {
      async connect() {
        try {
          return clientOf(await connect())
        } catch (error) {
          throw storeErrorOf(error)
        }
      },
      end: () => pool.end(),
    },
  })
}

/** The channel of `pg_notify`. */
export const channel = 'bidweir'

/**
 * LISTEN on a separate connection. If it is lost, polling continues and it is opened again. Behind PgBouncer in
 * transaction mode no notification arrives, and only polling is left.
 */
export class Listening {
  private readonly url: string
  private readonly changed: () => void
  private readonly log: Log
  private client: pg.Client
  /** null: none is due. */
  private retry: NodeJS.Timeout | null = null
  private closed = false

  constructor(url: string, changed: () => void, log: Log) {
    this.url = url
    this.changed = changed
    this.log = log
    this.client = this.open()
  }

  async close(): Promise<void> {
    this.closed = true
    if (this.retry !== null) clearTimeout(this.retry)
    await this.client
      .end()
      .catch((error: Error) =>
        this.log.warn({ err: error.message }, 'the LISTEN connection was not closed in order'),
      )
  }

  private open(): pg.Client {
    const client = new pg.Client({ connectionString: this.url, connectionTimeoutMillis: 3000 })
    client.on('notification', this.changed)
    client.on('error', (error) => {
      this.log.warn({ err: error.message }, 'the LISTEN connection was lost')
      this.openLater()
    })
    client.on('end', () => this.openLater())
    client
      .connect()
      .then(() => client.query(`listen ${channel}`))
      // Polling goes on, and reports a database that is away.
      .catch(() => this.openLater())
    return client
  }

  private openLater(): void {
    if (this.closed || this.retry !== null) return
    this.retry = setTimeout(() => {
      this.retry = null
      this.client = this.open()
    }, 1000).unref()
  }
}
