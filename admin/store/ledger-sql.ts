/**
 * The ledger's statements that many notices share. Rows and questions go in as one JSON text, so that the statement is
 * always the same: parsed once by SQLite, built by nobody (21 parameters a row cost kysely 40 us of each win).
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { LedgerRow, Tables } from './tables.ts'

/** In this order they stand in the JSON; money is exact decimal text to JSON and to SQLite. */
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
const names = Object.keys(columns) as (keyof LedgerRow)[]

/** Of one bid id: any status but rejected where none is said, rows of the supplier or of none where one is said. */
export interface BidQuestion {
  bidId: string
  event: string
  since: number
  status: string | null
  supplier: string | null
}

export interface LedgerSql {
  /** Inserts what does not stand yet, and says which that was. */
  insert(rows: readonly LedgerRow[]): Promise<{ decision: string; event: string }[]>
  /** Whether the ledger holds such a row, one answer a question. */
  holds(questions: BidQuestion[]): Promise<boolean[]>
}

/** JSON of what no database refuses: a lone surrogate is no character of UTF-8. */
const json = (rows: readonly (readonly (string | number | null)[])[]) =>
  JSON.stringify(rows.map((row) => row.map(whole)))
const whole = (value: string | number | null) =>
  typeof value === 'string' ? value.toWellFormed() : value

export function ledgerSql(db: Kysely<Tables>, postgres: boolean): LedgerSql {
  /** Rows of a JSON array of arrays, as `value`. */
  const each = (text: string) =>
    postgres
      ? sql`jsonb_array_elements(${text}::jsonb) with ordinality as j(value, n)`
      : sql`(select value, key + 1 as n from json_each(${text})) as j`
  const member = (at: number, type: string): RawBuilder<unknown> =>
    postgres ? sql`(value ->> ${sql.lit(at)})::${sql.raw(type)}` : sql`value ->> ${sql.lit(at)}`
  const values = sql.join(names.map((name, at) => member(at, columns[name])))
  const asked = ['text', 'text', 'bigint', 'text', 'text'].map((type, at) => member(at, type))
  const [bidId, event, since, status, supplier] = asked

  return {
    async insert(rows) {
      const text = json(rows.map((row) => names.map((name) => row[name])))
      const { rows: fresh } = await sql<{ decision: string; event: string }>`
        insert into ledger (${sql.join(names.map((name) => sql.ref(name)))})
        select ${values} from ${each(text)} where true
        on conflict (decision, event) do nothing returning decision, event`.execute(db)
      return fresh
    },
    async holds(questions) {
      const text = json(
        questions.map(({ bidId, event, since, status, supplier }) => [
          ...[bidId, event, Math.floor(since), status, supplier],
        ]),
      )
      const row = sql`select 1 from ledger where bid_id = ${bidId} and event = ${event}
        and at >= ${since} and status <> 'rejected' and (${status} is null or status = ${status})
        and (${supplier} is null or supplier is null or supplier = ${supplier}) limit 1`
      // PostgreSQL makes a join over the whole table of `exists` while it has no statistics; of `limit` it cannot
      const rest = postgres ? sql`cross join lateral (${row}) as found` : sql`where exists (${row})`
      const { rows } = await sql<{ n: number }>`select n from ${each(text)} ${rest}`.execute(db)
      const found = new Set(rows.map(({ n }) => Number(n)))
      return questions.map((_question, at) => found.has(at + 1))
    },
  }
}
