/** One store for SQLite and PostgreSQL: the same tables, the same code above them. */

import { Kysely, sql } from 'kysely'
import pg from 'pg'
import type { Log } from '../../opd/shared/log.ts'
import { oneAtATime } from '../../opd/shared/one-at-a-time.ts'
import { checkSql, createIntegrity } from './integrity.ts'
import { createLedger, type GroupLedger } from './ledger.ts'
import { migrate } from './migrations/index.ts'
import { postgresDialect } from './postgres.ts'
import { sqliteDialect } from './sqlite.ts'
import type { Tables } from './tables.ts'

export interface Store {
  db: Kysely<Tables>
  /**
   * The same database for what stores and counts wins. On PostgreSQL it has connections of its own: a ledger that is
   * slow or locked delays no log-in, no call of the API and no poll for changes.
   */
  wins: Kysely<Tables>
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
  /** The parts that do not answer a round trip which writes (a full disk can still be read); empty: all is well. */
  lost(): Promise<string[]>
  close(): Promise<void>
}

export interface StoreOptions {
  now: () => number
  log: Log
  /** Seconds of each ledger commit. */
  observe?: (seconds: number) => void
  /** Milliseconds between two looks for changes of other nodes. */
  every?: number
  /** The service, not a command beside it: a SQLite file is checked first, and after writes of any other program. */
  owns?: boolean
}

const channel = 'bidweir'
/** Connections to PostgreSQL of a node, besides one that listens and one each for reports and retention. */
const connections = { management: 4, wins: 6 }

interface Databases {
  db: Kysely<Tables>
  wins: Kysely<Tables>
  postgres: boolean
  /** Rejects with what is wrong with a file. */
  verify(): Promise<unknown>
  /** Rejects while a file that has failed was not found whole since. */
  check(): Promise<void>
  /** By part; each rejects when that part is lost. */
  pings: Readonly<Record<string, () => Promise<unknown>>>
}

function openSqlite(path: string, { now, owns = false }: StoreOptions): Databases {
  const verify = () => sql.raw(checkSql).execute(db)
  const { damaged, check } = createIntegrity(verify)
  const db = new Kysely<Tables>({ dialect: sqliteDialect(path, { create: true, owns, damaged }) })
  const ping = async () => {
    await check()
    // SQLite does not write what is as it was; its user_version is nobody's else
    await sql`pragma user_version = ${sql.lit(now() % 2 ** 31)}`.execute(db)
  }
  return { db, wins: db, postgres: false, verify, check, pings: { store: ping } }
}

function openPostgres(url: string, log: Log): Databases {
  const lost = (error: Error) => log.warn({ err: error.message }, 'a database connection was lost')
  const open = (max: number) =>
    new Kysely<Tables>({ dialect: postgresDialect(url, { max, longest: 5000, lost }) })
  const db = open(connections.management)
  const wins = open(connections.wins)
  return {
    db,
    wins,
    postgres: true,
    verify: async () => {},
    check: async () => {},
    pings: {
      management: () => sql`update revision set n = n`.execute(db),
      // changes no row, and wants the lock and the rights that a win wants
      wins: () => sql`update ledger set at = at where false`.execute(wins),
    },
  }
}

export async function openStore(url: string, options: StoreOptions): Promise<Store> {
  const { now, log, observe = () => {}, every = 500 } = options
  const { db, wins, postgres, verify, check, pings } = url.startsWith('sqlite:')
    ? openSqlite(url.slice(7), options)
    : openPostgres(url, log)
  const close = () => Promise.all([...new Set([db, wins])].map((each) => each.destroy()))
  try {
    if (options.owns === true) await verify()
    await migrate(db, postgres, now())
  } catch (error) {
    await close()
    throw error
  }
  const ledger = createLedger(wins, postgres, observe)
  const listeners: (() => Promise<void>)[] = []
  let known = -1
  let lost = false
  const look = oneAtATime(async () => {
    try {
      await check()
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
  const silent = new Set<string>()
  /** The part's name where it does not answer: one line of the log each time that changes. */
  async function ping([part, ask]: [string, () => Promise<unknown>]): Promise<string[]> {
    try {
      await ask()
      if (silent.delete(part)) log.info({ part }, 'this part of the store is back')
      return []
    } catch (error) {
      const err = (error as Error).message
      if (!silent.has(part)) log.error({ part, err }, 'this part of the store is lost')
      silent.add(part)
      return [part]
    }
  }
  let pinging: Promise<string[]> | null = null
  const ear = postgres ? listen(url, () => void look(), log) : null

  return {
    db,
    wins,
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
    lost() {
      // who asks again meanwhile hears the same: readiness probes cost one write at a time
      pinging ??= Promise.all(Object.entries(pings).map(ping))
        .then((parts) => parts.flat())
        .finally(() => {
          pinging = null
        })
      return pinging
    },
    async close() {
      clearInterval(timer)
      await ear?.close()
      await ledger.flush()
      await close()
    },
  }
}

/** LISTEN on a connection of its own; when it is lost the poll goes on, and it is opened again. */
function listen(url: string, changed: () => void, log: Log) {
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
