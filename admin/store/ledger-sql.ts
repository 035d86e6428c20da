/**
 * The SQL of the ledger. Rows and look-ups are passed as one JSON text, so that the statement text is constant:
 * SQLite parses it once, and kysely does not build it for each win (21 parameters a row took 40 us).
 */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import { day, hour } from './hour.ts'
import {
  clockSlack,
  firstDay,
  foreignBid,
  json,
  jsonMember,
  jsonRows,
  type NewRow,
  newRowNames,
  newRowTypes,
  stored,
} from './ledger-input.ts'
import { markStale } from './stale-hours.ts'
import { type LedgerRow, ledgerTable, type Tables } from './tables.ts'

/** A look-up by bid id. `status` null: any but rejected; `supplier` null: any, otherwise this one or none. */
export interface BidLookup {
  bidId: string
  event: string
  since: number
  /** Milliseconds before which no such win was decided. */
  decidedSince: number
  status: string | null
  supplier: string | null
}

export interface RowKey {
  decision: string
  event: string
}

export const keyOf = ({ decision, event }: RowKey) => `${event} ${decision}`

/** A row that was removed; `day` in PostgreSQL. */
interface RemovedRow extends RowKey {
  day?: number
}

export interface Inserted {
  fresh: RowKey[]
  /** Unattributed rows that attributed rows of this statement replace. */
  removed: RemovedRow[]
}

interface LedgerSql {
  /** Inserts the new wins and removes the rows that they replace, in one transaction. */
  insert(rows: readonly NewRow[]): Promise<Inserted>
  /**
   * Removes unattributed rows of wins that have another row, among those with the bid ids of `rows`, which are
   * committed. null: no other process writes, so `insert` has seen every row.
   */
  sweep: ((rows: readonly NewRow[]) => Promise<RemovedRow[]>) | null
  /** The same for the unattributed rows of an hour. */
  sweepHour(begin: number): Promise<RemovedRow[]>
  /** Whether the ledger has a matching row, for each look-up. */
  holds(lookups: BidLookup[]): Promise<boolean[]>
}

/** Two rows of one win that were committed concurrently are at most this far apart, in milliseconds. */
const sideBySide = hour
/** Days of decisions before the notice that are searched for such rows. */
const daysBefore = 3
/** Unattributed rows with one bid id that are examined. */
const maxMatches = 100

const refs = (names: readonly string[], table?: string) =>
  sql.join(names.map((name) => sql.ref(table === undefined ? name : `${table}.${name}`)))

/** `u` is an unattributed row with the bid id of `a` that is not too old. */
const bare = sql`u.bid_id = a.bid_id and u.event = a.event and u.at >= a.since
  and u.status = 'unattributed' and u.reason <> ${sql.lit(foreignBid)}`
/** `u` is the same win as `a`. */
const replaced = sql`a.status = 'attributed' and ${bare} and (u.supplier is null or u.supplier = a.supplier)`
/** The columns that the search for other rows needs. Fewer columns make the JSON cheaper. */
const winNames = [
  'bid_id',
  'event',
  'since',
  'at',
  'status',
  'supplier',
] as const satisfies (keyof NewRow)[]

/**
 * Statements with two parameters, each compiled once: JSON, and the first day that it reads. A literal bound lets
 * PostgreSQL skip the other partitions when it plans the statement.
 */
function statementsOn(db: Kysely<Tables>) {
  return <R>(build: (text: string) => RawBuilder<R>) => {
    const compiled = build('').compile(db)
    return async (text: string, first: number, on: Kysely<Tables> = db) => {
      const parameters = compiled.parameters.map((parameter) => (parameter === 0 ? first : text))
      return (await on.executeQuery<R>({ ...compiled, parameters })).rows
    }
  }
}

/** Rows of the days that a statement reads. */
const recentDays = (postgres: boolean) => (table: string) =>
  postgres ? sql`${sql.ref(`${table}.day`)} >= ${0}` : sql`true`

export function ledgerSql(db: Kysely<Tables>, postgres: boolean): LedgerSql {
  const member = (index: number, type: string) => jsonMember(postgres, index, type)
  const ledger = sql.table(ledgerTable(postgres))
  const [statement, recent] = [statementsOn(db), recentDays(postgres)]
  /** The win of the unattributed row `a` has a row already. */
  const reported = sql`select 1 from ${ledger} as w where w.bid_id = a.bid_id and w.event = a.event and w.at >= a.since
    and w.status <> 'rejected' and (a.of is null or w.supplier is null or w.supplier = a.of) and ${recent('w')} limit 1`
  const voided = sql`select 1 from ${ledger} as v
    where v.decision = a.decision and v.status = 'voided' and ${recent('v')} limit 1`
  /** `limit` in a scalar subquery: without statistics, PostgreSQL turns `exists` into a join over the whole table. */
  const free = sql`(a.status <> 'attributed' or (${voided}) is null)
    and (a.status <> 'unattributed' or a.since is null or (${reported}) is null)`
  /** `w` is the remaining row of the win of `u`: an attributed one, or the first of two unattributed ones by key. */
  const otherRow = sql`select 1 from ${ledger} as w where w.bid_id = u.bid_id and w.event = u.event and w.at >= a.since
    and (w.supplier is null or u.supplier is null or w.supplier = u.supplier)
    and (w.status in ('attributed', 'voided')
      or w.status = 'unattributed' and (w.decision, w.day) < (u.decision, u.day) and w.reason <> ${sql.lit(foreignBid)})
    and u.at >= least(w.decided_at, w.at) - ${sql.lit(clockSlack)} and ${recent('w')} limit 1`
  const textOf = (rows: readonly NewRow[], names: readonly (keyof NewRow)[]) =>
    json(rows.map((row) => names.map((name) => row[name])))
  const input = (text: string, names: readonly (keyof NewRow)[]) => sql`
    with input as (select ${sql.join(
      names.map((name, index) => sql`${member(index, newRowTypes[name])} as ${sql.ref(name)}`),
    )} from ${jsonRows(postgres, text)})`

  const inserted = postgres ? [...stored, 'day'] : stored
  /** The key of a partition is (decision, event), so the conflict has no target. */
  const insertion = sql<RowKey>`insert into ${ledger} (${refs(inserted)})
    select ${refs(inserted, 'a')} from input as a where ${free}
    on conflict do nothing returning decision, event, at`

  return {
    ...(postgres ? forPostgres() : forSqlite()),
    holds: lookupsIn(db, postgres),
  }

  function forPostgres(): Omit<LedgerSql, 'holds'> {
    /**
     * Deletes the rows `u` that match `condition` for the rows `a`. It deletes by ctid, which never becomes a scan, and
     * which is unique within a partition.
     */
    const removal = (condition: RawBuilder<unknown>) => sql`found as materialized (
        select found.* from input as a cross join lateral (
          select u.ctid as place, u.tableoid as partition from ledger_days as u
          where ${condition} and ${recent('u')} limit ${sql.lit(maxMatches)}) as found),
      removed as (delete from ledger_days as d where ${recent('d')}
        and d.ctid = any(array(select place from found))
        and (d.tableoid, d.ctid) in (select partition, place from found)
        returning d.decision, d.event, d.day, d.at)`
    /** Rows that arrive for an hour which has been summed change it, too: clocks differ. */
    const changed = (rows: RawBuilder<unknown>) =>
      sql`stale as (${markStale(
        sql`(${rows}) as changed`,
        sql`greatest((select max(at) from input), (select until from rolled))`,
      )})`
    const insert = statement(
      (text) => sql<RemovedRow & { inserted: boolean }>`${input(text, newRowNames)},
        ${removal(replaced)}, fresh as (${insertion}),
        journal as (insert into outcomes (batch, place, node, applied, at, kind, decision, event, body)
          select a.batch, row_number() over (), a.node, 0, a.at, 'notice', a.decision, a.event, a.outcome
          from fresh join input as a on a.decision = fresh.decision and a.event = fresh.event
          where a.outcome is not null),
        ${changed(sql`select at from removed
          union all select at from fresh where at < (select until from rolled)`)}
        select decision, event, true as inserted, 0 as day from fresh
        union all select decision, event, false as inserted, day from removed`,
    )
    const sweep = statement(
      (text) => sql<RemovedRow>`${input(text, winNames)},
        ${removal(sql`${bare} and (${otherRow}) is not null`)}, ${changed(sql`select at from removed`)}
        select decision, event, day from removed`,
    )
    const doubled = statement(
      (begin) => sql<Pick<NewRow, (typeof winNames)[number]>>`
        select u.bid_id, u.event, a.since, u.at, u.status, u.supplier from ledger_days as u
        cross join lateral (select u.at - ${sql.lit(sideBySide)} as since) as a
        where u.at >= ${begin}::bigint and u.at < ${begin}::bigint + ${sql.lit(hour)}
          and u.status = 'unattributed' and u.reason <> ${sql.lit(foreignBid)}
          and ${recent('u')} and (${otherRow}) is not null`,
    )
    return {
      async sweepHour(begin) {
        const first = Math.max(0, Math.floor(begin / day) - daysBefore)
        const rows = await doubled(String(begin), first)
        return rows.length === 0 ? [] : sweep(textOf(rows as NewRow[], winNames), first)
      },
      async insert(rows) {
        const done = await insert(textOf(rows, newRowNames), firstDay(rows))
        return {
          fresh: done.filter(({ inserted }) => inserted),
          removed: done.filter(({ inserted }) => !inserted),
        }
      },
      sweep: (rows) => sweep(textOf(rows, winNames), firstDay(rows)),
    }
  }

  /** SQLite cannot delete within `with`. Rows to remove are rare and take a transaction of several statements. */
  function forSqlite(): Omit<LedgerSql, 'holds'> {
    const insert = statement((text) => sql<RowKey>`${input(text, newRowNames)} ${insertion}`)
    const find = statement(
      (text) => sql<RowKey & { place: number }>`${input(text, winNames)}
        select u.rowid as place, u.decision, u.event
        from input as a cross join ledger as u where ${replaced}`,
    )
    /** The rows of `fresh` in the order of the input. */
    const journal = statement(
      (text) => sql`${input(text, newRowNames)} insert into outcomes
        (batch, place, node, applied, at, kind, decision, event, body)
        select batch, row_number() over (), node, 0, at, 'notice', decision, event, outcome from input`,
    )
    return {
      async insert(rows) {
        const text = textOf(rows, newRowNames)
        const removed = await find(textOf(rows, winNames), 0)
        const followed = rows.filter(({ outcome }) => outcome !== null)
        if (removed.length === 0 && followed.length === 0)
          return { fresh: await insert(text, 0), removed }
        const places = sql.join(removed.map(({ place }) => sql.lit(place)))
        const now = sql.lit(Math.max(...rows.map((row) => row.at)))
        return db.transaction().execute(async (trx) => {
          if (removed.length > 0) {
            const leaving = sql`(select at from ledger where rowid in (${places})) as leaving`
            await markStale(leaving, now).execute(trx)
            await sql`delete from ledger where rowid in (${places})`.execute(trx)
          }
          const fresh = await insert(text, 0, trx)
          const keys = new Set(fresh.map(keyOf))
          const entries = followed.filter((row) => keys.has(keyOf(row)))
          if (entries.length > 0) await journal(textOf(entries, newRowNames), 0, trx)
          return { fresh, removed }
        })
      },
      sweep: null,
      sweepHour: async () => [],
    }
  }
}

function lookupsIn(db: Kysely<Tables>, postgres: boolean): LedgerSql['holds'] {
  const [statement, recent] = [statementsOn(db), recentDays(postgres)]
  const ledger = sql.table(ledgerTable(postgres))
  const types = ['text', 'text', 'bigint', 'text', 'text']
  const [bidId, event, since, status, supplier] = types.map((type, index) =>
    jsonMember(postgres, index, type),
  )
  const row = sql`select 1 from ${ledger} as w where bid_id = ${bidId} and event = ${event}
    and at >= ${since} and status <> 'rejected' and (${status} is null or status = ${status})
    and (${supplier} is null or supplier is null or supplier = ${supplier}) and ${recent('w')} limit 1`
  // without statistics, PostgreSQL turns `exists` into a join over the whole table; it cannot do so with `limit`
  const match = postgres ? sql`cross join lateral (${row}) as found` : sql`where exists (${row})`
  const find = statement(
    (text) => sql<{ n: number }>`
    select n from ${jsonRows(postgres, text)} ${match}`,
  )
  return async (lookups) => {
    const rows = lookups.map((lookup) => [
      lookup.bidId,
      lookup.event,
      Math.floor(lookup.since),
      lookup.status,
      lookup.supplier,
    ])
    const first = Math.min(...lookups.map(({ decidedSince }) => Math.floor(decidedSince / day)))
    const found = new Set((await find(json(rows), Math.max(0, first))).map(({ n }) => n))
    return lookups.map((_lookup, index) => found.has(index + 1))
  }
}

/**
 * The days of the ledger in PostgreSQL: one partition of `ledger_days` for each day of decision. The day of a row follows
 * from its decision, so the key of each partition keeps the rows of one decision unique.
 */

/** The day of a row: that of its decision, or that of the notice where no decision is known. */
export const dayOfRow = (row: Pick<LedgerRow, 'decided_at' | 'at'>) =>
  Math.trunc((row.decided_at ?? row.at) / day)

interface Partition {
  name: string
  /** The first day after it. */
  end: number
}

/** Days that have a partition before they begin: nodes may write for this long if none can be created. */
const daysAhead = 7
/** Longest wait for locks in milliseconds: statements that store wins queue behind it. */
const lockTimeout = 500
/** The key of the advisory lock under which partitions change. */
const advisoryKey = 4217003

async function partitionsOf(db: Kysely<Tables>): Promise<Partition[]> {
  const { rows } = await sql<{ name: string; bound: string }>`
    select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bound
    from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'ledger_days'::regclass`.execute(db)
  return rows
    .map(({ name, bound }) => ({ name, end: Number(/TO \('?(-?\d+)'?\)/.exec(bound)?.[1]) }))
    .sort((one, other) => one.end - other.end)
}

const changing = <T>(db: Kysely<Tables>, work: (trx: Transaction<Tables>) => Promise<T>) =>
  db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${sql.lit(advisoryKey)})`.execute(trx)
    return work(trx)
  })

/** Creates the partition of a day if there is none. Statements that store wins go on meanwhile. */
async function createDay(db: Kysely<Tables>, dayNumber: number): Promise<void> {
  await changing(db, async (trx) => {
    const partitions = await partitionsOf(trx)
    if (partitions.some(({ end }) => end === dayNumber + 1)) return
    const name = sql.table(`ledger_day_${dayNumber}`)
    await sql`create table ${name} (like ledger_days including all)`.execute(trx)
    await sql`alter table ledger_days attach partition ${name}
      for values from (${sql.lit(dayNumber)}) to (${sql.lit(dayNumber + 1)})`.execute(trx)
  })
}

interface LedgerDays {
  /**
   * Creates the partitions that these days do not have.
   *
   * @param days numbers of UTC days, counted from 1970-01-01
   * @throws if the database is lost
   */
  ensure(days: Iterable<number>): Promise<void>
  /** Looks again for the partitions of all days: another node may have dropped one. */
  forget(): void
}

/**
 * The partitions of the ledger on PostgreSQL. Days are numbered from 1970, UTC.
 *
 * @param db may create tables
 */
export function createLedgerDays(db: Kysely<Tables>): LedgerDays {
  let known = new Set<number>()
  return {
    async ensure(days) {
      for (const day of days) {
        if (known.has(day)) continue
        await createDay(db, day)
        known.add(day)
      }
    },
    forget() {
      known = new Set()
    },
  }
}

/** Creates the partitions of the coming days. */
export async function createNextDays(db: Kysely<Tables>, now: number): Promise<void> {
  const today = Math.trunc(now / day)
  const ends = new Set((await partitionsOf(db)).map(({ end }) => end))
  for (let number = today; number <= today + daysAhead; number++)
    if (!ends.has(number + 1)) await createDay(db, number)
}

/** Days whose decisions are old enough to be dropped. */
export async function oldDays(db: Kysely<Tables>, before: number): Promise<string[]> {
  const partitions = await partitionsOf(db)
  return partitions.filter(({ end }) => end * day <= before).map(({ name }) => name)
}

/**
 * Drops the partition if all its notices arrived before `before`; false if not. Rejects if the locks are not free
 * soon.
 */
export function dropDay(db: Kysely<Tables>, name: string, before: number): Promise<boolean> {
  return changing(db, async (trx) => {
    await sql`set local lock_timeout = ${sql.lit(lockTimeout)}`.execute(trx)
    // the whole ledger first, as statements that store wins lock it
    await sql`lock table only ledger_days in access exclusive mode`.execute(trx)
    const partition = sql.table(name)
    const { rows } = await sql`select 1 from ${partition} where at >= ${before} limit 1`.execute(
      trx,
    )
    if (rows.length > 0) return false
    await sql`drop table ${partition}`.execute(trx)
    return true
  })
}
