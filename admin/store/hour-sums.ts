/**
 * Sums of the ledger: their SQL, and those of one hour. A read-only connection groups the rows, so that no win waits,
 * and the connection of the store writes the sums a few rows at a time.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { type FacetName, facetNames } from '../../opd/shared/facets.ts'
import { hour } from './hour.ts'
import type { Store } from './index.ts'
import { writeSums } from './sums.ts'
import { type HourRow, ledgerTable, type Tables } from './tables.ts'

/** The primary key of `ledger_hours`. */
export const hourKey = [
  'hour',
  'supplier',
  'event',
  'status',
  'mode',
  'arm',
  'via',
  'publisher',
  'domain',
  'currency',
] as const

/**
 * The exact sum of decimal texts.
 *
 * @param postgres otherwise SQLite, which adds millionths
 * @param value an expression of one row
 */
export const exactSum = (postgres: boolean, value: ReturnType<typeof sql>) =>
  postgres
    ? sql<string>`cast(coalesce(sum(${value}), 0) as text)`
    : sql<string>`exact_sum(${value})`

/**
 * The exact sum of a column over the rows with a margin, which are those that count money.
 *
 * @param postgres otherwise SQLite
 * @param column of the ledger: CPM
 */
export const money = (postgres: boolean, column: string) =>
  exactSum(postgres, sql`case when margin is not null then ${sql.ref(column)} end`)

/**
 * An amount, or 0 if it is beyond the limits that the metrics have too. 1e300 and 1e-300 are valid prices; the square of
 * the first is infinite, and PostgreSQL refuses that of the second together with the whole sum.
 */
const plausible = (amount: RawBuilder<unknown>) =>
  sql`case when abs(${amount}) between 1e-9 and 1e9 then cast(${amount} as double precision) else 0 end`
const sumOf = (amount: RawBuilder<unknown>) => sql<number>`coalesce(sum(${amount}), 0)`
const margin = plausible(sql`margin`)
const spend = plausible(sql`(cleared + margin)`)

/** Sums of doubles over rows of the ledger, by which optimized bids are compared with the holdout. */
export const comparedSums = {
  margins: sumOf(margin),
  squares: sumOf(sql`${margin} * ${margin}`),
  spends: sumOf(spend),
  spend_squares: sumOf(sql`${spend} * ${spend}`),
} as const
export const comparedNames = Object.keys(comparedSums) as (keyof typeof comparedSums)[]

/** Rows of one statement, 25 columns each. */
const sliceRows = 100

const sums = [
  'n',
  'bids',
  'priced',
  'late',
  'over_count',
  'lowered',
  'unapplied',
  'cleared',
  'out_ba',
  'margin',
  ...comparedNames,
] as const

const exactSums: ReadonlySet<string> = new Set(['cleared', 'out_ba', 'margin'])

/**
 * Maximum characters of each column: an index row is limited to some 2,700 bytes, and suppliers may send any text as
 * currency.
 */
const groups = {
  supplier: 64,
  status: 16,
  mode: 16,
  arm: 16,
  via: 16,
  publisher: 96,
  domain: 96,
  currency: 16,
} as const

/** The columns of `ledger_hour_facets` that are in `ledger_hours`. */
export const facetHourKey = hourKey.filter((name) => name !== 'publisher' && name !== 'domain')
const { publisher: _publisher, domain: _domain, ...facetGroups } = groups

interface Target {
  table: 'ledger_hours' | 'ledger_hour_seats' | 'ledger_hour_facets'
  key: readonly string[]
  /** Maximum characters of each column of the key but hour, event and dimension. */
  groups: Readonly<Record<string, number>>
  /** The rows of the ledger that are summed. */
  rows: RawBuilder<unknown>
  dimension?: FacetName
}

/** The sums of an hour: those of all seats, of them those of each seat, and those of each value of each dimension. */
const targets: readonly Target[] = [
  { table: 'ledger_hours', key: hourKey, groups, rows: sql`1 = 1` },
  {
    table: 'ledger_hour_seats',
    key: [...hourKey, 'seat'],
    groups: { ...groups, seat: 64 },
    rows: sql`seat is not null`,
  },
  ...facetNames.map(
    (dimension): Target => ({
      table: 'ledger_hour_facets',
      key: [...facetHourKey, 'dimension', 'value'],
      groups: { ...facetGroups, value: 64 },
      rows: sql`${sql.ref(dimension)} is not null`,
      dimension,
    }),
  ),
]

/** An unattributed bid counts once for all its events, so its event is not a part of the key. */
const event = sql`case when status = 'attributed' then event else '' end`

async function sumIntoTempTable(
  db: Kysely<Tables>,
  postgres: boolean,
  begin: number,
  { table, groups, rows, dimension }: Target,
): Promise<void> {
  const texts = Object.entries(groups).map(([name, most]) => ({
    name,
    text: sql`substr(coalesce(${sql.ref(name === 'value' ? dimension! : name)}, ''), 1, ${sql.lit(most)})`,
  }))
  const named = texts.map(({ name, text }) => sql`${text} as ${sql.ref(name)}`)
  const order = [event, ...texts.map(({ text }) => text)]
  const keys = sql.join(['event', ...Object.keys(groups)].map((name) => sql.ref(name)))
  const ofDimension = dimension === undefined ? sql`` : sql`and dimension = ${sql.lit(dimension)}`
  const none = sql.join(sums.map((name) => (exactSums.has(name) ? sql.lit('0') : sql.lit(0))))
  await sql`drop table if exists hour_sums`.execute(db)
  await sql`create temp table hour_sums as with present as (
      select ${event} as event, ${sql.join(named)}, count(*) as n, count(distinct decision) as bids,
        count(margin) as priced, sum(late) as late, sum(${sql.ref('over')}) as over_count,
        count(applied) as lowered, count(case when applied = 0 then 1 end) as unapplied,
        ${money(postgres, 'cleared')} as cleared, ${money(postgres, 'out_ba')} as out_ba,
        ${money(postgres, 'margin')} as margin,
        ${sql.join(comparedNames.map((name) => sql`${comparedSums[name]} as ${sql.ref(name)}`))}
      from ${sql.table(ledgerTable(postgres))}
      where at >= ${sql.lit(begin)} and at < ${sql.lit(begin + hour)} and ${rows}
      group by ${sql.join(order)})
    select row_number() over () as row, sums.* from (
      select * from present
      union all select emptied.*, ${none} from (
        select ${keys} from ${sql.table(table)} where hour = ${sql.lit(begin)} and status <> 'duplicate' ${ofDimension}
        except select ${keys} from present) as emptied) as sums`.execute(db)
}

/** Writes the sums of an hour, and 0 for groups whose rows were removed or changed. */
export async function addUpHour(
  store: Store,
  reader: { db: Kysely<Tables>; postgres: boolean },
  begin: number,
  pause: () => Promise<void>,
): Promise<void> {
  // A temporary table belongs to one connection, and PgBouncer keeps a connection for a transaction only. On SQLite a
  // transaction would block wins.
  const session = reader.postgres ? reader.db.transaction() : reader.db.connection()
  await session.execute(async (db: Kysely<Tables>) => {
    for (const target of targets) {
      await sumIntoTempTable(db, reader.postgres, begin, target)
      for (let last = 0; ; last += sliceRows) {
        const names = ['event', ...Object.keys(target.groups), ...sums].map((name) => sql.ref(name))
        const { rows } = await sql<Omit<HourRow, 'hour'>>`select ${sql.join(names)} from hour_sums
          where row > ${sql.lit(last)} and row <= ${sql.lit(last + sliceRows)}`.execute(db)
        if (rows.length === 0) break
        const { dimension } = target
        const shared = dimension === undefined ? { hour: begin } : { hour: begin, dimension }
        const hourly = rows.map((row) => ({ ...row, ...shared }))
        await writeSums(store.db, 'replace', { ...target, sums }, hourly)
        await pause()
      }
      await sql`drop table hour_sums`.execute(db)
    }
  })
}
