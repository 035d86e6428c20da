/** The SQL of the reports; `rows.ts` interprets the results. */
import { type RawBuilder, sql } from 'kysely'
import type { FacetName } from '../../opd/shared/facets.ts'
import { isInUncheckedHour } from '../store/alerts.ts'
import { hourOf } from '../store/hour.ts'
import {
  comparedNames,
  comparedSums,
  exactSum,
  facetHourKey,
  hourKey,
  money,
} from '../store/hour-sums.ts'
import { type DecidedRow, type HourRow, ledgerTable, type WithSeat } from '../store/tables.ts'
import {
  facetOf,
  groupKey,
  inScope,
  needsSeats,
  type Scope,
  type Source,
  type TimeRanges,
} from './scope.ts'

interface HourTable {
  all: string
  seats: string
  facets: string
  names: readonly string[]
  /** Of the sums by facet. */
  facetNames: readonly string[]
  sums: readonly string[]
  /** Sums that SQLite stores as decimal text. */
  texts?: readonly string[]
}

const decided: HourTable = {
  all: 'decided',
  seats: 'decided_seats',
  facets: 'decided_facets',
  names: ['hour', 'supplier', 'mode', 'arm', 'via', 'publisher', 'domain'],
  facetNames: ['hour', 'supplier', 'mode', 'arm', 'via'],
  sums: ['bids'],
}
const hours: HourTable = {
  all: 'ledger_hours',
  seats: 'ledger_hour_seats',
  facets: 'ledger_hour_facets',
  names: hourKey,
  facetNames: facetHourKey,
  sums: ['n', 'bids', 'priced', 'late', 'over_count', 'lowered', 'unapplied', ...comparedNames],
  texts: ['cleared', 'out_ba', 'margin'],
}

function negative(name: string, isText: boolean): RawBuilder<unknown> {
  const value = sql.ref(name)
  if (!isText) return sql`-${value} as ${value}`
  return sql`case when ${value} like '-%' then substr(${value}, 2) else '-' || ${value} end as ${value}`
}

/**
 * Hourly sums by seat, or by a facet: those of each known value, and under '' the sums of all minus those of the known ones. So
 * the values always add up to what the other reports say, also for hours that a version without them has summed. `within`
 * selects the hours in each of the three queries, so that databases read no others.
 */
function rowsOf(
  table: HourTable,
  postgres: boolean,
  within: RawBuilder<unknown>,
  facet: FacetName | null,
): RawBuilder<unknown> {
  const { all, sums, texts = [] } = table
  const [names, parts, name, value, known] =
    facet === null
      ? [table.names, table.seats, sql.ref('seat'), sql.ref('seat'), sql`1 = 1`]
      : [
          ...([table.facetNames, table.facets, sql.ref(facet), sql.ref('value')] as const),
          sql`dimension = ${sql.lit(facet)}`,
        ]
  const key = sql.join(names.map((name) => sql.ref(name)))
  const figures = [...sums, ...texts]
  const plain = sql.join(figures.map((figure) => sql.ref(figure)))
  const minus = sql.join(
    figures.map((figure) => negative(figure, !postgres && texts.includes(figure))),
  )
  const ofParts = sql`from ${sql.table(parts)} where ${within} and ${known}`
  return sql`(select ${key}, '' as ${name}, ${plain} from ${sql.table(all)} where ${within}
    union all select ${key}, ${value} as ${name}, ${plain} ${ofParts}
    union all select ${key}, '' as ${name}, ${minus} ${ofParts})`
}

/** The sums that a scope needs: of all, by seat, or by a facet. The types have the columns that the scope uses. */
function decidedSums({ db, postgres }: Source, scope: Scope, within: RawBuilder<boolean>) {
  const facet = facetOf(scope)
  if (facet === null && !needsSeats(scope)) return db.selectFrom('decided').where(within)
  const rows = rowsOf(decided, postgres, within, facet) as RawBuilder<WithSeat<DecidedRow>>
  return db.selectFrom(rows.as('decided'))
}

function ledgerSums({ db, postgres }: Source, scope: Scope, within: RawBuilder<boolean>) {
  const facet = facetOf(scope)
  if (facet === null && !needsSeats(scope)) return db.selectFrom('ledger_hours').where(within)
  const rows = rowsOf(hours, postgres, within, facet) as RawBuilder<WithSeat<HourRow>>
  return db.selectFrom(rows.as('ledger_hours'))
}

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
      sql<number>`count(applied)`.as('lowered'),
      sql<number>`count(case when applied = 0 then 1 end)`.as('unapplied'),
      money(source.postgres, 'cleared').as('cleared'),
      money(source.postgres, 'out_ba').as('out'),
      money(source.postgres, 'margin').as('margin'),
      ...comparedNames.map((name) => comparedSums[name].as(name)),
    ])
    .where('at', '>=', scope.from)
    .where('at', '<', scope.to)
    .where('status', '=', 'attributed')
    .where(sql<boolean>`coalesce(arm, '') <> 'test'`)
    .where(inScope(scope))
    .$if(scope.unchecked === true, (rows) =>
      rows.where(isInUncheckedHour(ledgerTable(source.postgres), 'at')),
    )
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

/** Without this condition, a group whose seats or facets are all known would have a row of zeros for ''. */
const isAny = (column: string) => sql<boolean>`sum(${sql.ref(column)}) <> 0`

/** The sums of the hours of the scope, without the stale ones. */
function hourSums(source: Source, scope: Scope, stale: readonly number[]) {
  const { from, to } = scope
  const within = sql<boolean>`hour >= ${sql.lit(from)} and hour < ${sql.lit(to)} and n <> 0 ${
    stale.length === 0
      ? sql``
      : sql`and hour not in (${sql.join(stale.map((hour) => sql.lit(hour)))})`
  }`
  return ledgerSums(source, scope, within)
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
      total('lowered').as('lowered'),
      total('unapplied').as('unapplied'),
      exact('cleared').as('cleared'),
      exact('out_ba').as('out'),
      exact('margin').as('margin'),
      ...comparedNames.map((name) => total(name).as(name)),
    ])
    .where('status', '=', 'attributed')
    .where('arm', '!=', 'test')
    .where(inScope(scope))
    .$if(scope.unchecked === true, (rows) => rows.where(isInUncheckedHour('ledger_hours', 'hour')))
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
  const key = groupKey(scope, 'hour')
  const within = sql<boolean>`hour >= ${sql.lit(hourOf(scope.from))} and hour < ${sql.lit(scope.to)}`
  return decidedSums(source, scope, within)
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
  const fullHours = { ...scope, from: hourOf(scope.from) }
  rows.push(...(await hourOthers(source, fullHours, ['duplicate'])))
  return rows
}
