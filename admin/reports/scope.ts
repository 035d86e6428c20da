/**
 * The rows that a report covers, and their grouping, as SQL. Whole hours are read from their sums, the rest from the
 * ledger.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { day, hour, hourOf, staleHours } from '../store/hour.ts'
import type { Tables } from '../store/tables.ts'

export const groups = ['ssp', 'publisher', 'domain', 'hour', 'day'] as const
export type Group = (typeof groups)[number]

/** A database connection for reading. */
export interface Source {
  db: Kysely<Tables>
  postgres: boolean
}

export interface Scope {
  suppliers: readonly string[]
  /** All rows, including notices without a supplier and those of removed suppliers. */
  all: boolean
  from: number
  to: number
  by: Group
}

export const periods: Readonly<Record<string, number>> = { hour, day }

/** The group key of a row; `at` is the name of the time column. */
export function keyOf(by: Group, at: string): RawBuilder<string> {
  const span = periods[by]
  if (span === undefined)
    return sql<string>`coalesce(${sql.ref(by === 'ssp' ? 'supplier' : by)}, '')`
  return sql<string>`cast((${sql.ref(at)} / ${sql.lit(span)}) * ${sql.lit(span)} as text)`
}

export function inScope({ suppliers, all }: Scope) {
  if (all) return sql<boolean>`1 = 1`
  if (suppliers.length === 0) return sql<boolean>`1 = 0`
  return sql<boolean>`supplier in (${sql.join(suppliers.map((id) => sql.lit(id)))})`
}

export interface TimeRange {
  from: number
  to: number
}
export interface TimeRanges {
  ledger: TimeRange[]
  /** `stale`: hours within the range that are read from the ledger instead. */
  hours: (TimeRange & { stale: number[] }) | null
}

export interface RollupState {
  until: number
  sealed: number
  /** Hours whose rows have changed after they were summed. */
  stale: readonly number[]
}

/**
 * Hours before `until` have sums. Rows of hours before `sealed` may have been deleted, so such an hour is counted
 * whole even if the range cuts it.
 */
export function split({ from, to }: TimeRange, { until, sealed, stale }: RollupState): TimeRanges {
  const whole = (at: number, otherwise: number) => (at < sealed ? hourOf(at) : otherwise)
  const begin = whole(from, hourOf(from + hour - 1))
  const end = Math.min(until, to <= sealed ? hourOf(to + hour - 1) : hourOf(to))
  if (begin >= end) return { ledger: [{ from, to }], hours: null }
  const within = stale.filter((at) => at >= begin && at < end)
  const ledger = [
    { from, to: begin },
    ...within.map((at) => ({ from: at, to: at + hour })),
    { from: end, to },
  ].filter((part) => part.from < part.to)
  return { ledger, hours: { from: begin, to: end, stale: within } }
}

export async function readRollupState({ db }: Source): Promise<RollupState> {
  const stale = await staleHours(db)
  const row = await db.selectFrom('rolled').select(['until', 'sealed']).executeTakeFirst()
  return {
    until: Number(row?.until ?? 0),
    sealed: Number(row?.sealed ?? 0),
    stale: stale.map(({ hour }) => hour),
  }
}
