/** What the databases add up; what it means is for `rows.ts` to say. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Tables } from '../store/tables.ts'
import type { Group } from './ask.ts'

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

const hour = 3_600_000
export const spans: Readonly<Record<string, number>> = { hour, day: 24 * hour }

/** What rows are grouped by; `at` is the column of the time. */
function keyOf(by: Group, at: string): RawBuilder<string> {
  const span = spans[by]
  if (span === undefined)
    return sql<string>`coalesce(${sql.ref(by === 'ssp' ? 'supplier' : by)}, '')`
  return sql<string>`cast((${sql.ref(at)} / ${sql.lit(span)}) * ${sql.lit(span)} as text)`
}

/** The exact sum of a column over the rows that are money: those with a margin. */
const money = ({ postgres }: Source, column: string) => {
  const value = sql`case when margin is not null then ${sql.ref(column)} end`
  return postgres
    ? sql<string>`cast(coalesce(sum(${value}), 0) as text)`
    : sql<string>`exact_sum(${value})`
}

/** What an auction may pay, as the metrics take it: a price of 1e300 is JSON too, and its square is no number. */
const plausible = sql<number>`case when abs(cast(margin as double precision)) < 1e9 then cast(margin as double precision) else 0 end`

function withinScope({ suppliers, all }: Scope) {
  if (all) return sql<boolean>`1 = 1`
  if (suppliers.length === 0) return sql<boolean>`1 = 0`
  return sql<boolean>`supplier in (${sql.join(suppliers.map((id) => sql.lit(id)))})`
}

/** Wins and their money by all that decides what they count as; test bids are no money and no wins. */
export function winRows(source: Source, scope: Scope) {
  const key = keyOf(scope.by, 'at')
  return source.db
    .selectFrom('ledger')
    .select([
      key.as('key'),
      'supplier',
      'event',
      'arm',
      'currency',
      sql<number>`count(*)`.as('n'),
      sql<number>`count(margin)`.as('priced'),
      sql<number>`sum(late)`.as('late'),
      sql<number>`sum(${sql.ref('over')})`.as('over_count'),
      money(source, 'cleared').as('cleared'),
      money(source, 'out_ba').as('out'),
      money(source, 'margin').as('margin'),
      sql<number>`coalesce(sum(${plausible}), 0)`.as('margins'),
      sql<number>`coalesce(sum(${plausible} * ${plausible}), 0)`.as('squares'),
    ])
    .where('at', '>=', scope.from)
    .where('at', '<', scope.to)
    .where('status', '=', 'attributed')
    .where(sql<boolean>`coalesce(arm, '') <> 'test'`)
    .where(withinScope(scope))
    .groupBy([key, 'supplier', 'event', 'arm', 'currency'])
    .execute()
}

/** Bids reported but found nowhere, and notices refused. One bid reported under both events is one. */
export function otherRows(source: Source, scope: Scope) {
  const key = keyOf(scope.by, 'at')
  return source.db
    .selectFrom('ledger')
    .select([
      key.as('key'),
      'status',
      sql<number>`count(*)`.as('n'),
      sql<number>`count(distinct decision)`.as('bids'),
    ])
    .where('at', '>=', scope.from)
    .where('at', '<', scope.to)
    .where('status', '!=', 'attributed')
    .where(withinScope(scope))
    .groupBy([key, 'status'])
    .execute()
}

export async function decidedRows(source: Source, scope: Scope) {
  const key = keyOf(scope.by, 'hour')
  return source.db
    .selectFrom('decided')
    .select([key.as('key'), 'arm', sql<number>`sum(bids)`.as('n')])
    .where('hour', '>=', scope.from - (scope.from % hour))
    .where('hour', '<', scope.to)
    .where(withinScope(scope))
    .groupBy([key, 'arm'])
    .execute()
}
