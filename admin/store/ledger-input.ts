/** The input of the ledger's statements: rows as one JSON text, which the statement reads as a table. */
import { type RawBuilder, sql } from 'kysely'
import { day } from './hour.ts'
import type { LedgerRow } from './tables.ts'

type Value = string | number | null

/** Lone surrogates, which UTF-8 cannot encode and databases reject, are replaced. */
export const json = (rows: readonly (readonly Value[])[]) =>
  JSON.stringify(rows.map((row) => row.map(wellFormed)))
const wellFormed = (value: Value) => (typeof value === 'string' ? value.toWellFormed() : value)

/** The rows as table `j`: each as `value`, numbered from 1 as `n`. */
export const jsonRows = (postgres: boolean, text: string) =>
  postgres
    ? sql`jsonb_array_elements(${text}::jsonb) with ordinality as j(value, n)`
    : sql`(select value, key + 1 as n from json_each(${text})) as j`

/** The member of a row at an index. */
export const jsonMember = (postgres: boolean, path: number, type: string): RawBuilder<unknown> =>
  postgres ? sql`(value ->> ${sql.lit(path)})::${sql.raw(type)}` : sql`value ->> ${sql.lit(path)}`

/**
 * Reason of an unattributed win that a caller reported for a bid of another account. An attributed win does not
 * replace it.
 */
export const foreignBid = 'foreign_bid'

/**
 * Tolerated clock skew between nodes in milliseconds: a notice that is older than a decision by more is not its win.
 */
export const clockSlack = 5 * 60_000

/**
 * Selects the rows with the same bid id that are the same win: not older than `since`, and of this supplier or of
 * none.
 */
export interface SameWin {
  since: number
  /** null: any supplier. */
  supplier: string | null
}

/** A row to insert, and the rows with its bid id that are the same win (`SameWin`). */
export interface NewRow extends LedgerRow {
  notice: string | null
  /** Selects the partition in PostgreSQL. */
  day: number
  /** `SameWin.since`; null: no other rows are searched. */
  since: number | null
  /** `SameWin.supplier`. */
  of: string | null
  /** What follows the row, as the journal of outcomes has it; null: nothing. */
  outcome: string | null
  /** The commit, and the process, of the entry in the journal. */
  batch: string
  node: string
}

/** The columns in the order of the JSON. Money is exact decimal text in JSON and in SQLite. */
const columns = {
  decision: 'text',
  event: 'text',
  bid_id: 'text',
  status: 'text',
  by: 'text',
  supplier: 'text',
  mode: 'text',
  arm: 'text',
  via: 'text',
  publisher: 'text',
  domain: 'text',
  seat: 'text',
  country: 'text',
  device: 'text',
  format: 'text',
  size: 'text',
  deal: 'text',
  in_ba: 'numeric',
  out_ba: 'numeric',
  cleared: 'numeric',
  price_dsp: 'numeric',
  currency: 'text',
  margin: 'numeric',
  late: 'integer',
  over: 'integer',
  applied: 'integer',
  reason: 'text',
  decided_at: 'bigint',
  at: 'bigint',
  notice: 'text',
} as const satisfies Record<keyof LedgerRow, string>
export const stored = Object.keys(columns) as (keyof LedgerRow)[]
export const newRowTypes: Record<keyof NewRow, string> = {
  ...columns,
  day: 'integer',
  since: 'bigint',
  of: 'text',
  outcome: 'text',
  batch: 'text',
  node: 'text',
}
export const newRowNames = Object.keys(newRowTypes) as (keyof NewRow)[]

/**
 * The first day that a statement reads: twice as far before the notice as `since`. A row since `since` may have been
 * decided that much earlier.
 */
export function firstDay(rows: readonly NewRow[]): number {
  let first = Number.MAX_SAFE_INTEGER
  for (const row of rows) {
    const reach = row.since === null ? row.at : 2 * row.since - row.at
    first = Math.min(first, row.day, Math.floor(reach / day))
  }
  return Math.max(0, first)
}
