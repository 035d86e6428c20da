/** The rows that a report covers, and their grouping, as SQL. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { day, hour } from '../store/hour.ts'
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
