/** One store for SQLite and PostgreSQL: the same tables, the same code above them. */
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { oneAtATime } from '../one-at-a-time.ts'
import { StoreError } from './errors.ts'
import { createLedger, type GroupLedger } from './ledger.ts'
import { migrate } from './migrations/index.ts'
import { sqliteDialect } from './sqlite.ts'
import type { Tables } from './tables.ts'

export interface StoreLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface Store {
  db: Kysely<Tables>
  /** Where it is, for those who read it at length on a thread of their own. */
  url: string
  ledger: GroupLedger
  postgres: boolean
  /**
   * Calls back when any node, or another process, changed what bid traffic obeys; within about half a second. A
   * listener that rejects is called again at the next look: no change is lost with one failure.
   */
  onChange(listener: () => Promise<void>): void
  /** Says so to the other nodes, in the transaction at hand. */
  bump(db: Kysely<Tables>): Promise<void>
  /** One round trip that writes, since a full disk can still be read; rejects when the store is lost. */
  ping(): Promise<void>
  close(): Promise<void>
}

export interface StoreOptions {
  now: () => number
  log: StoreLog
  /** Seconds of each ledger commit. */
  observe?: (seconds: number) => void
  /** Milliseconds between two looks for changes of other nodes. */
  every?: number
}

const channel = 'bidweir'

// int8 fits a double here: counts and times in milliseconds.
pg.types.setTypeParser(20, Number)

function dialectOf(url: string, log: StoreLog): { db: Kysely<Tables>; postgres: boolean } {
  if (url.startsWith('sqlite:'))
    return { db: new Kysely<Tables>({ dialect: sqliteDialect(url.slice(7)) }), postgres: false }
  const pool = new pg.Pool({
    connectionString: url,
    max: 8,
    connectionTimeoutMillis: 3000,
    // A statement that hangs would hold its caller for ever, a server that hangs does not end it.
    statement_timeout: 5000,
    query_timeout: 6000,
  })
  // A connection that dies must not reach the top, idle or between two statements of a transaction (there the pool
  // hears nothing): what it was doing fails, the next query opens another.
  const lost = (error: Error) => log.warn({ err: error.message }, 'a database connection was lost')
  pool.on('error', lost)
  pool.on('connect', (client) => client.on('error', lost))
  return { db: new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) }), postgres: true }
}

export async function openStore(url: string, options: StoreOptions): Promise<Store> {
  const { now, log, observe = () => {}, every = 500 } = options
  const { db, postgres } = dialectOf(url, log)
  await migrate(db, postgres, now())
  const ledger = createLedger(db, postgres, observe)
  const listeners: (() => Promise<void>)[] = []
  let known = -1
  let lost = false
  const look = oneAtATime(async () => {
    try {
      const row = await db.selectFrom('revision').select('n').executeTakeFirst()
      const n = Number(row?.n ?? 0)
      if (n !== known) await Promise.all(listeners.map((listener) => listener()))
      // known when all have taken it
      known = n
      if (lost) log.info({}, 'the store is back')
      lost = false
    } catch (error) {
      if (!lost)
        log.error({ err: (error as Error).message }, 'the store is lost, the last snapshot stays')
      lost = true
    }
  })
  await look()
  const timer = setInterval(() => void look(), every)
  timer.unref()
  let pinging: Promise<void> | null = null
  // SQLite does not write what is as it was; its user_version is nobody's else
  const written = () =>
    postgres
      ? sql`update revision set n = n`
      : sql`pragma user_version = ${sql.lit(now() % 2 ** 31)}`
  const ear = postgres ? listen(url, () => void look(), log) : null

  return {
    db,
    url,
    ledger,
    postgres,
    onChange(listener) {
      listeners.push(listener)
    },
    async bump(within) {
      await within
        .updateTable('revision')
        .set(({ eb }) => ({ n: eb('n', '+', 1) }))
        .execute()
      if (postgres) await sql`select pg_notify(${channel}, '')`.execute(within)
    },
    ping() {
      // who asks again meanwhile hears the same: readiness probes cost one write at a time
      pinging ??= written()
        .execute(db)
        .then(
          () => undefined,
          (error: Error) => {
            throw new StoreError('unavailable', error.message, { cause: error })
          },
        )
        .finally(() => {
          pinging = null
        })
      return pinging
    },
    async close() {
      clearInterval(timer)
      await ear?.close()
      await ledger.flush()
      await db.destroy()
    },
  }
}

/** LISTEN on a connection of its own; when it is lost the poll goes on, and it is opened again. */
function listen(url: string, changed: () => void, log: StoreLog) {
  let closed = false
  let client: pg.Client | null = null
  let retry: NodeJS.Timeout | null = null
  const again = () => {
    if (closed || retry !== null) return
    retry = setTimeout(() => {
      retry = null
      open()
    }, 1000)
    retry.unref()
  }
  const open = () => {
    const next = new pg.Client({ connectionString: url, connectionTimeoutMillis: 3000 })
    client = next
    next.on('notification', changed)
    next.on('error', (error) => {
      log.warn({ err: error.message }, 'the notice connection was lost')
      again()
    })
    next.on('end', again)
    next
      .connect()
      .then(() => next.query(`listen ${channel}`))
      .catch(again)
  }
  open()
  return {
    async close() {
      closed = true
      if (retry !== null) clearTimeout(retry)
      await client?.end().catch((error: Error) => log.warn({ err: error.message }, 'closing'))
    },
  }
}
