/**
 * The ledger's statements that many notices share. Rows and questions go in as one JSON text, so that the statement is
 * always the same: parsed once by SQLite, built by nobody (21 parameters a row cost kysely 40 us of each win).
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { clockSlack, foreignBid } from '../ports.ts'
import { json, jsonMember, jsonRows } from './json-rows.ts'
import { markStale } from './stale-hours.ts'
import type { LedgerRow, Tables } from './tables.ts'

/** A row on its way to the ledger, and which rows under its bid id are the same win (`SameWin`). */
export interface AskedRow extends LedgerRow {
  /** null: none is looked for. */
  since: number | null
  of: string | null
}

/** In this order the columns of the table stand in the JSON; money is exact decimal text to JSON and to SQLite. */
const columns = {
  decision: 'text',
  event: 'text',
  bid_id: 'text',
  status: 'text',
  by: 'text',
  supplier: 'text',
  mode: 'text',
  arm: 'text',
  publisher: 'text',
  domain: 'text',
  in_ba: 'numeric',
  out_ba: 'numeric',
  cleared: 'numeric',
  price_dsp: 'numeric',
  currency: 'text',
  margin: 'numeric',
  late: 'integer',
  over: 'integer',
  reason: 'text',
  decided_at: 'bigint',
  at: 'bigint',
} as const satisfies Record<keyof LedgerRow, string>
const stored = Object.keys(columns) as (keyof LedgerRow)[]
const askedTypes: Record<keyof AskedRow, string> = { ...columns, since: 'bigint', of: 'text' }
const askedNames = Object.keys(askedTypes) as (keyof AskedRow)[]

/** Of one bid id: any status but rejected where none is said, rows of the supplier or of none where one is said. */
export interface BidQuestion {
  bidId: string
  event: string
  since: number
  status: string | null
  supplier: string | null
}

export interface RowKey {
  decision: string
  event: string
}

export interface Inserted {
  fresh: RowKey[]
  /** Unattributed rows whose wins the attributed ones among the rows are. */
  removed: RowKey[]
}

export interface LedgerSql {
  /** Inserts the wins that the ledger does not have yet and removes the rows that they replace, in one transaction. */
  insert(rows: readonly AskedRow[]): Promise<Inserted>
  /**
   * Removes unattributed rows of wins that another row stands for, among those under the bid ids of `rows`, which are
   * committed. null: no other process writes, `insert` has seen every row.
   */
  sweep: ((rows: readonly AskedRow[]) => Promise<RowKey[]>) | null
  /** Whether the ledger holds such a row, one answer a question. */
  holds(questions: BidQuestion[]): Promise<boolean[]>
}

/** Unattributed wins under one bid id that are looked at. */
const mostAlike = 100

const refs = (names: readonly string[], table?: string) =>
  sql.join(names.map((name) => sql.ref(table === undefined ? name : `${table}.${name}`)))

/** `u`, an unattributed row under the bid id of `a`, and not too old for it. */
const bare = sql`u.bid_id = a.bid_id and u.event = a.event and u.at >= a.since
  and u.status = 'unattributed' and u.reason <> ${sql.lit(foreignBid)}`
/** `u` is the win of `a`. */
const replaced = sql`a.status = 'attributed' and ${bare} and (u.supplier is null or u.supplier = a.supplier)`
/** A win under the bid id of `a`, an unattributed row, has a row already. */
const reported = sql`select 1 from ledger as w where w.bid_id = a.bid_id and w.event = a.event and w.at >= a.since
  and w.status <> 'rejected' and (a.of is null or w.supplier is null or w.supplier = a.of) limit 1`
const voided = sql`select 1 from ledger as v where v.decision = a.decision and v.status = 'voided' limit 1`
/** `limit` within a scalar: PostgreSQL makes a join over the whole table of `exists` while it has no statistics. */
const free = sql`(a.status <> 'attributed' or (${voided}) is null)
  and (a.status <> 'unattributed' or a.since is null or (${reported}) is null)`
/** `w` is the row of the win that `u` was recorded for: an attributed one, or of two unattributed ones the first by key. */
const otherRow = sql`select 1 from ledger as w where w.bid_id = u.bid_id and w.event = u.event and w.at >= a.since
  and (w.supplier is null or u.supplier is null or w.supplier = u.supplier)
  and (w.status in ('attributed', 'voided')
    or w.status = 'unattributed' and w.decision < u.decision and w.reason <> ${sql.lit(foreignBid)})
  and u.at >= least(w.decided_at, w.at) - ${sql.lit(clockSlack)} limit 1`

/** What is asked of the rows to look for others of their wins: a part of their JSON, which costs by the member. */
const winNames = [
  'bid_id',
  'event',
  'since',
  'at',
  'status',
  'supplier',
] as const satisfies (keyof AskedRow)[]

export function ledgerSql(db: Kysely<Tables>, postgres: boolean): LedgerSql {
  const member = (at: number, type: string) => jsonMember(postgres, at, type)
  /** A statement over the rows of one JSON text, compiled once. */
  function statement<R>(build: (text: string) => RawBuilder<R>) {
    const compiled = build('').compile(db)
    return async (text: string, on: Kysely<Tables> = db) =>
      (await on.executeQuery<R>({ ...compiled, parameters: [text] })).rows
  }
  const textOf = (rows: readonly AskedRow[], names: readonly (keyof AskedRow)[]) =>
    json(rows.map((row) => names.map((name) => row[name])))
  const asked = (text: string, names: readonly (keyof AskedRow)[]) => sql`
    with asked as (select ${sql.join(
      names.map((name, at) => sql`${member(at, askedTypes[name])} as ${sql.ref(name)}`),
    )} from ${jsonRows(postgres, text)})`

  const insertion = sql<RowKey>`insert into ledger (${refs(stored)})
    select ${refs(stored, 'a')} from asked as a where ${free}
    on conflict (decision, event) do nothing returning decision, event`

  return {
    ...(postgres ? forPostgres() : forSqlite()),
    holds: forQuestions(),
  }

  function forPostgres(): Pick<LedgerSql, 'insert' | 'sweep'> {
    /** Deletes the rows `u` that `condition` finds for the rows `a`; by place, which no statistics turn into a scan. */
    const removal = (condition: RawBuilder<unknown>) => sql`removed as (
      delete from ledger where ctid = any(array(select found.place from asked as a cross join lateral (
        select u.ctid as place from ledger as u where ${condition} limit ${sql.lit(mostAlike)}) as found))
      returning decision, event, at),
      stale as (${markStale(sql`removed`, sql`(select max(at) from asked)`)})`
    const insert = statement(
      (text) => sql<RowKey & { inserted: boolean }>`${asked(text, askedNames)},
        ${removal(replaced)}, fresh as (${insertion})
        select decision, event, true as inserted from fresh
        union all select decision, event, false as inserted from removed`,
    )
    const sweep = statement(
      (text) => sql<RowKey>`${asked(text, winNames)},
        ${removal(sql`${bare} and (${otherRow}) is not null`)}
        select decision, event from removed`,
    )
    return {
      async insert(rows) {
        const told = await insert(textOf(rows, askedNames))
        return {
          fresh: told.filter(({ inserted }) => inserted),
          removed: told.filter(({ inserted }) => !inserted),
        }
      },
      sweep: (rows) => sweep(textOf(rows, winNames)),
    }
  }

  /** SQLite changes nothing within `with`: a row to remove, which is rare, takes a transaction of several statements. */
  function forSqlite(): Pick<LedgerSql, 'insert' | 'sweep'> {
    const insert = statement((text) => sql<RowKey>`${asked(text, askedNames)} ${insertion}`)
    const find = statement(
      (text) => sql<RowKey & { place: number }>`${asked(text, winNames)}
        select u.rowid as place, u.decision, u.event
        from asked as a cross join ledger as u where ${replaced}`,
    )
    return {
      async insert(rows) {
        const text = textOf(rows, askedNames)
        const removed = await find(textOf(rows, winNames))
        if (removed.length === 0) return { fresh: await insert(text), removed }
        const places = sql.join(removed.map(({ place }) => sql.lit(place)))
        const now = sql.lit(Math.max(...rows.map(({ at }) => at)))
        return db.transaction().execute(async (trx) => {
          const leaving = sql`(select at from ledger where rowid in (${places})) as leaving`
          await markStale(leaving, now).execute(trx)
          await sql`delete from ledger where rowid in (${places})`.execute(trx)
          return { fresh: await insert(text, trx), removed }
        })
      },
      sweep: null,
    }
  }

  function forQuestions(): LedgerSql['holds'] {
    const types = ['text', 'text', 'bigint', 'text', 'text']
    const [bidId, event, since, status, supplier] = types.map((type, at) => member(at, type))
    const row = sql`select 1 from ledger where bid_id = ${bidId} and event = ${event}
      and at >= ${since} and status <> 'rejected' and (${status} is null or status = ${status})
      and (${supplier} is null or supplier is null or supplier = ${supplier}) limit 1`
    // PostgreSQL makes a join over the whole table of `exists` while it has no statistics; of `limit` it cannot
    const rest = postgres ? sql`cross join lateral (${row}) as found` : sql`where exists (${row})`
    const ask = statement(
      (text) => sql<{ n: number }>`
      select n from ${jsonRows(postgres, text)} ${rest}`,
    )
    return async (questions) => {
      const text = json(
        questions.map(({ bidId, event, since, status, supplier }) => [
          ...[bidId, event, Math.floor(since), status, supplier],
        ]),
      )
      const found = new Set((await ask(text)).map(({ n }) => Number(n)))
      return questions.map((_question, at) => found.has(at + 1))
    }
  }
}
