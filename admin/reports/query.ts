/** The SQL of the reports; `rows.ts` interprets the results. */
import { sql } from 'kysely'
import { hourOf } from '../store/hour.ts'
import { exactSum, margins, money, squares } from '../store/sums.ts'
import { ledgerTable } from '../store/tables.ts'
import { groupKey, inScope, needsSeats, type Scope, type Source, type TimeRanges } from './scope.ts'
import { decidedBySeat, hoursBySeat } from './seat-hours.ts'

/** Wins and their money, by every column that affects how they count. Test bids are excluded. */
function ledgerWins(source: Source, scope: Scope) {
  const key = groupKey(scope, 'at')
  return source.db
    .selectFrom(ledgerTable(source.postgres))
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
      money(source.postgres, 'cleared').as('cleared'),
      money(source.postgres, 'out_ba').as('out'),
      money(source.postgres, 'margin').as('margin'),
      margins.as('margins'),
      squares.as('squares'),
    ])
    .where('at', '>=', scope.from)
    .where('at', '<', scope.to)
    .where('status', '=', 'attributed')
    .where(sql<boolean>`coalesce(arm, '') <> 'test'`)
    .where(inScope(scope))
    .groupBy([key, 'supplier', 'event', 'arm', 'currency'])
    .execute()
}

/** Unattributed, rejected and voided notices. A bid that was reported for both events counts once in `bids`. */
function ledgerOthers(source: Source, scope: Scope) {
  const key = groupKey(scope, 'at')
  return source.db
    .selectFrom(ledgerTable(source.postgres))
    .select([
      key.as('key'),
      'status',
      sql<number>`count(*)`.as('n'),
      sql<number>`count(distinct decision)`.as('bids'),
    ])
    .where('at', '>=', scope.from)
    .where('at', '<', scope.to)
    .where('status', '!=', 'attributed')
    .where(inScope(scope))
    .groupBy([key, 'status'])
    .execute()
}

/** Without it, bids whose seats are all known would leave a group of 0 without a seat. */
const isAny = (column: string) => sql<boolean>`sum(${sql.ref(column)}) <> 0`

/** The sums of the hours of the scope, without the stale ones. */
function hourSums({ db, postgres }: Source, scope: Scope, stale: readonly number[]) {
  const { from, to } = scope
  const within = sql<boolean>`hour >= ${sql.lit(from)} and hour < ${sql.lit(to)} and n <> 0 ${
    stale.length === 0
      ? sql``
      : sql`and hour not in (${sql.join(stale.map((hour) => sql.lit(hour)))})`
  }`
  return needsSeats(scope)
    ? db.selectFrom(hoursBySeat(postgres, within))
    : db.selectFrom('ledger_hours').where(within)
}

function hourWins(source: Source, scope: Scope, stale: readonly number[]) {
  const key = groupKey(scope, 'hour')
  const total = (column: string) => sql<number>`sum(${sql.ref(column)})`
  const exact = (column: string) => exactSum(source.postgres, sql`${sql.ref(column)}`)
  return hourSums(source, scope, stale)
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
    .where('status', '=', 'attributed')
    .where('arm', '!=', 'test')
    .where(inScope(scope))
    .groupBy([key, 'supplier', 'event', 'arm', 'currency'])
    .having(isAny('n'))
    .execute()
}

function hourOthers(
  source: Source,
  scope: Scope,
  statuses: string[],
  stale: readonly number[] = [],
) {
  const key = groupKey(scope, 'hour')
  return hourSums(source, scope, stale)
    .select([
      key.as('key'),
      'status',
      sql<number>`sum(n)`.as('n'),
      sql<number>`sum(bids)`.as('bids'),
    ])
    .where('status', 'in', statuses)
    .where(inScope(scope))
    .groupBy([key, 'status'])
    .having(isAny('n'))
    .execute()
}

export async function decidedRows(source: Source, scope: Scope) {
  const { db, postgres } = source
  const key = groupKey(scope, 'hour')
  const within = sql<boolean>`hour >= ${sql.lit(hourOf(scope.from))} and hour < ${sql.lit(scope.to)}`
  const rows = needsSeats(scope)
    ? db.selectFrom(decidedBySeat(postgres, within))
    : db.selectFrom('decided').where(within)
  return rows
    .select([key.as('key'), 'arm', sql<number>`sum(bids)`.as('n')])
    .where(inScope(scope))
    .groupBy([key, 'arm'])
    .having(isAny('bids'))
    .execute()
}

/** Wins of all parts of the scope. A key may occur several times. */
export async function winRows(source: Source, scope: Scope, { ledger, hours }: TimeRanges) {
  const rows = []
  for (const part of ledger) rows.push(...(await ledgerWins(source, { ...scope, ...part })))
  if (hours !== null) rows.push(...(await hourWins(source, { ...scope, ...hours }, hours.stale)))
  return rows
}

/** Notices that are not wins. Duplicates exist only as hourly sums. */
export async function otherRows(source: Source, scope: Scope, { ledger, hours }: TimeRanges) {
  const rows = []
  for (const part of ledger) rows.push(...(await ledgerOthers(source, { ...scope, ...part })))
  if (hours !== null) {
    const statuses = ['unattributed', 'rejected', 'voided']
    rows.push(...(await hourOthers(source, { ...scope, ...hours }, statuses, hours.stale)))
  }
  const whole = { ...scope, from: hourOf(scope.from) }
  rows.push(...(await hourOthers(source, whole, ['duplicate'])))
  return rows
}
