/** The store: the same tables and interface for SQLite and PostgreSQL. */
import { Kysely, sql } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime, shareRun } from '../../opd/base/one-at-a-time.ts'
import { isMissingPartition, StoreError } from './errors.ts'
import { day } from './hour.ts'
import { Ledger } from './ledger.ts'
import { createLosses, type LossStore } from './losses.ts'
import { migrate } from './migrations/index.ts'
import { Outcomes } from './outcomes.ts'
import { sqliteDialect } from './sqlite.ts'
import { checkSql, createIntegrity } from './sqlite-file.ts'
import { clockOf, type Tables } from './tables.ts'

export interface Store {
  db: Kysely<Tables>
  /**
   * The same database, for storing and counting wins. On PostgreSQL it has its own connections, so that a slow or
   * locked ledger does not delay log-ins, API calls or the poll for changes.
   */
  wins: Kysely<Tables>
  /** The URL, for code that opens its own connection on another thread. */
  url: string
  /** Ids of the migrations that ran when it was opened. */
  migrated: readonly string[]
  /**
   * Milliseconds since the epoch, the same on every node: by the clock of PostgreSQL, as last read. The service uses no
   * other: contexts, tokens and rows that one node makes are checked by another.
   */
  clock(): number
  /** Milliseconds that this clock is ahead of this node's; 0 with SQLite. */
  readonly clockAhead: number
  ledger: Ledger
  losses: LossStore
  /** What follows the rows of both. */
  outcomes: Outcomes
  postgres: boolean
  /**
   * Calls the listener within half a second when any node or command has changed the directory.
   *
   * @param listener reads what it needs. If it rejects, it is called again at the next poll.
   */
  onChange(listener: () => Promise<void>): void
  /** Notifies all nodes of a change; called within its transaction. */
  bump(db: Kysely<Tables>): Promise<void>
  /** The parts that do not complete a write (a full disk can still be read); empty if all do. */
  lost(): Promise<string[]>
  /** null with SQLite. */
  connections(): Promise<DatabaseConnections | null>
  close(): Promise<void>
}

export interface DatabaseConnections {
  /** Of all clients of the server. */
  used: number
  /** Of clients that are no superusers. */
  limit: number
}

export interface StoreOptions {
  now: () => number
  /** Milliseconds of a clock that is never set. */
  monotonic?: () => number
  log: Log
  /** Called with the seconds of each ledger commit. */
  observe?: (seconds: number) => void
  /** Milliseconds between two polls for changes of other nodes. */
  pollInterval?: number
  /**
   * True for the service, false for a command. The service checks a SQLite file at the start and after writes by
   * other programs.
   */
  owns?: boolean
}

/** Milliseconds: a smaller change of the difference of the clocks is ignored. */
const leastDifference = 500
/** Connections to PostgreSQL of a node. One more listens, and reports and retention use one each. */
const connections = { management: 4, wins: 6 }

interface Listening {
  close(): Promise<void>
}

interface Databases {
  db: Kysely<Tables>
  wins: Kysely<Tables>
  postgres: boolean
  /** Notifies other nodes of a change, within its transaction. */
  notify(within: Kysely<Tables>): Promise<unknown>
  /** Calls `changed` when other nodes have changed something; null: there are none. */
  listen(changed: () => void): Listening | null
  /** Rejects with the fault of a damaged file. */
  verify(): Promise<unknown>
  /** Rejects if the file was damaged and has not passed a check since. */
  check(): Promise<void>
  /** Returns the ids of the migrations that ran. */
  migrate(now: number): Promise<string[]>
  /** null: there is no server. */
  connections(): Promise<DatabaseConnections | null>
  /** By part. Each rejects if the part is lost. */
  pings: Readonly<Record<string, () => Promise<unknown>>>
}

function openSqlite(path: string, { now, owns = false }: StoreOptions): Databases {
  const verify = () => sql.raw(checkSql).execute(db)
  const { damaged, check } = createIntegrity(verify)
  const db = new Kysely<Tables>({ dialect: sqliteDialect(path, { create: true, owns, damaged }) })
  const ping = async () => {
    await check()
    // SQLite skips writes that change nothing; only this code uses user_version
    await sql`pragma user_version = ${sql.lit(now() % 2 ** 31)}`.execute(db)
  }
  return {
    db,
    wins: db,
    postgres: false,
    verify,
    check,
    notify: async () => {},
    listen: () => null,
    migrate: (begin) => migrate(db, false, begin),
    connections: async () => null,
    pings: { store: ping },
  }
}

/** Bytes of text of a row that is larger than that of nearly all wins. */
const largeRow = 600
const undone = new Error('the row was stored')

/**
 * Inserts a row into today's ledger and rolls it back. Rejects if a win could not be stored: because of a lock or a privilege,
 * or because the disk is full, on which a database still changes the rows that it has.
 */
async function tryToStore(wins: Kysely<Tables>): Promise<void> {
  const clock = clockOf(true, Date.now)
  try {
    await wins.transaction().execute(async (trx) => {
      await sql`insert into ledger_days
          (decision, event, bid_id, status, cleared, late, "over", reason, at, day)
        select 'probe:' || gen_random_uuid(), '', '', 'probe', 0, 0, 0,
          repeat('x', ${sql.lit(largeRow)}), ${clock}, ${clock} / ${sql.lit(day)}`.execute(trx)
      throw undone
    })
  } catch (error) {
    // The first win of a day creates its partition.
    if (error !== undone && !isMissingPartition(error)) throw error
  }
}

/** A user without privileges also sees that the connections of others exist. */
async function countConnections(db: Kysely<Tables>): Promise<DatabaseConnections> {
  const { rows } = await sql<DatabaseConnections>`select count(*)::int as used,
      current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int as "limit"
    from pg_stat_activity where datid is not null`.execute(db)
  return rows[0]!
}

async function openPostgres(url: string, { log }: StoreOptions): Promise<Databases> {
  // not loaded where it is not used
  const { channel, Listening, postgresDialect } = await import('./postgres.ts')
  const lost = (error: Error) => log.warn({ err: error.message }, 'a database connection was lost')
  const open = (max: number, longest: number | null = 5000) =>
    new Kysely<Tables>({ dialect: postgresDialect(url, { max, longest, lost }) })
  const db = open(connections.management)
  const wins = open(connections.wins)
  return {
    db,
    wins,
    postgres: true,
    notify: (within) => sql`select pg_notify(${channel}, '')`.execute(within),
    listen: (changed) => new Listening(url, changed, log),
    verify: async () => {},
    check: async () => {},
    async migrate(begin) {
      // a connection without time limits: a migration, and the wait for another node's, may take minutes
      const migrating = open(1, null)
      try {
        return await migrate(migrating, true, begin)
      } finally {
        await migrating.destroy()
      }
    },
    connections: () => countConnections(db),
    pings: {
      management: () => sql`update revision set n = n`.execute(db),
      wins: () => tryToStore(wins),
    },
  }
}

/** The error of a PostgreSQL that cannot be reached says which one: several words of its own do not. Without the password. */
function namingServer(url: string, { code, message, cause }: StoreError): StoreError {
  const { host, pathname } = new URL(url)
  return new StoreError(code, `PostgreSQL at ${host}${pathname}: ${message}`, { cause })
}

/**
 * Opens the database, and migrates it.
 *
 * @param url `sqlite:PATH`, `sqlite::memory:` or `postgres://…`
 * @throws if it cannot be opened, is damaged, or a migration fails
 */
export async function openStore(url: string, options: StoreOptions): Promise<Store> {
  const { now, log, observe = () => {}, pollInterval = 500 } = options
  const { monotonic = () => performance.now() } = options
  const databases = url.startsWith('sqlite:')
    ? openSqlite(url.slice(7), options)
    : await openPostgres(url, options)
  const { db, wins, postgres, verify, check, migrate, pings } = databases
  const close = () => Promise.all([...new Set([db, wins])].map((pool) => pool.destroy()))
  let migrated: string[]
  try {
    if (options.owns === true) await verify()
    migrated = await migrate(now())
  } catch (error) {
    await close()
    throw postgres && error instanceof StoreError ? namingServer(url, error) : error
  }
  /** Milliseconds that the clock of PostgreSQL is ahead of this node's. */
  let ahead = 0
  const clock = () => now() + ahead
  const outcomes = new Outcomes({ db: wins, postgres, now: clock, monotonic, log })
  const ledger = new Ledger(wins, postgres, observe, clock, outcomes)
  const listeners: (() => Promise<void>)[] = []
  let knownRevision = -1
  let lost = false
  let closed = false
  function compareClocks(asked: number, clock: number): void {
    const answered = now()
    const difference = Math.round(clock - (asked + answered) / 2)
    const error = (answered - asked) / 2
    if (Math.abs(difference - ahead) > Math.max(error, leastDifference)) ahead = difference
  }
  const poll = oneAtATime(async () => {
    if (closed) return
    try {
      await check()
      const asked = now()
      const row = await db
        .selectFrom('revision')
        .select(['n', clockOf(postgres, now).as('clock')])
        .executeTakeFirstOrThrow()
      if (postgres) compareClocks(asked, row.clock)
      const { n } = row
      if (n !== knownRevision) await Promise.all(listeners.map((listener) => listener()))
      // set after all listeners have succeeded
      knownRevision = n
      if (lost) log.info({}, 'the store is back')
      lost = false
    } catch (error) {
      if (!lost)
        log.error({ err: (error as Error).message }, 'the store is lost, the last snapshot is kept')
      lost = true
    }
  })
  await poll()
  const timer = setInterval(() => void poll(), pollInterval).unref()
  const unresponsive = new Set<string>()
  /** Returns the name of the part if it does not respond. Each change of its state is logged once. */
  async function ping([part, ask]: [string, () => Promise<unknown>]): Promise<string[]> {
    try {
      await ask()
      if (unresponsive.delete(part)) log.info({ part }, 'this part of the store is back')
      return []
    } catch (error) {
      const err = (error as Error).message
      if (!unresponsive.has(part)) log.error({ part, err }, 'this part of the store is lost')
      unresponsive.add(part)
      return [part]
    }
  }
  const notifications = databases.listen(() => void poll())

  return {
    db,
    wins,
    url,
    migrated,
    clock,
    get clockAhead() {
      return ahead
    },
    ledger,
    losses: createLosses(wins, postgres, outcomes),
    outcomes,
    postgres,
    onChange(listener) {
      listeners.push(listener)
    },
    async bump(within) {
      await sql`update revision set n = n + 1`.execute(within)
      await databases.notify(within)
    },
    // concurrent calls share one result, so that readiness probes cost one write at a time
    connections: databases.connections,
    lost: shareRun(async () => (await Promise.all(Object.entries(pings).map(ping))).flat()),
    async close() {
      clearInterval(timer)
      closed = true
      await notifications?.close()
      // Resolves when a poll that still uses the database has ended.
      await poll()
      await ledger.flush()
      await close()
    },
  }
}
