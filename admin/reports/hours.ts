/** Queries on `ledger_hours`, the hourly sums, with the same columns as the queries on the ledger. */
import { sql } from 'kysely'
import { exactSum } from '../store/sums.ts'
import { inScope, keyOf, type Scope, type Source } from './scope.ts'

/** Selects the hours of the scope, without the stale ones. */
const withinHours = ({ from, to }: Scope, stale: readonly number[]) =>
  sql<boolean>`hour >= ${sql.lit(from)} and hour < ${sql.lit(to)} and n > 0 ${
    stale.length === 0
      ? sql``
      : sql`and hour not in (${sql.join(stale.map((hour) => sql.lit(hour)))})`
  }`

export function hourWins(source: Source, scope: Scope, stale: readonly number[]) {
  const key = keyOf(scope.by, 'hour')
  const total = (column: string) => sql<number>`sum(${sql.ref(column)})`
  const exact = (column: string) => exactSum(source.postgres, sql`${sql.ref(column)}`)
  return source.db
    .selectFrom('ledger_hours')
    .select([
      key.as('key'),
      'supplier',
      'event',
      'arm',
      'currency',
      total('n').as('n'),
      total('priced').as('priced'),
      total('late').as('late'),
      total('over_count').as('over_count'),
      exact('cleared').as('cleared'),
      exact('out_ba').as('out'),
      exact('margin').as('margin'),
      total('margins').as('margins'),
      total('squares').as('squares'),
    ])
    .where(withinHours(scope, stale))
    .where('status', '=', 'attributed')
    .where('arm', '!=', 'test')
    .where(inScope(scope))
    .groupBy([key, 'supplier', 'event', 'arm', 'currency'])
    .execute()
}

export function hourOthers(
  source: Source,
  scope: Scope,
  statuses: string[],
  stale: readonly number[] = [],
) {
  const key = keyOf(scope.by, 'hour')
  return source.db
    .selectFrom('ledger_hours')
    .select([
      key.as('key'),
      'status',
      sql<number>`sum(n)`.as('n'),
      sql<number>`sum(bids)`.as('bids'),
    ])
    .where(withinHours(scope, stale))
    .where('status', 'in', statuses)
    .where(inScope(scope))
    .groupBy([key, 'status'])
    .execute()
}
