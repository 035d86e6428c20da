/** What a report is asked of, and how that is said to a database. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { day, hour } from '../store/hour.ts'
import type { Tables } from '../store/tables.ts'

export const groups = ['ssp', 'publisher', 'domain', 'hour', 'day'] as const
export type Group = (typeof groups)[number]

/** A database to read from. */
export interface Source {
  db: Kysely<Tables>
  postgres: boolean
}

export interface Scope {
  suppliers: readonly string[]
  /** Whatever stands there: notices of no supplier, and of those that the file names no longer. */
  all: boolean
  from: number
  to: number
  by: Group
}

export const periods: Readonly<Record<string, number>> = { hour, day }

/** What rows are grouped by; `at` is the column of the time. */
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
