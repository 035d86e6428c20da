/**
 * Hourly sums with the seat. Only sums whose seat is known have rows of their own; the rest of the sums of all seats has
 * the seat ''. So the seats always add up to what the other reports say, also for hours that a version without seats
 * has summed.
 */
import { type RawBuilder, sql } from 'kysely'
import { hourKey } from '../store/hour.ts'
import type { DecidedRow, HourRow, WithSeat } from '../store/tables.ts'

interface HourTable {
  all: string
  seats: string
  names: readonly string[]
  sums: readonly string[]
  /** Sums that SQLite stores as decimal text. */
  texts?: readonly string[]
}

const decided: HourTable = {
  all: 'decided',
  seats: 'decided_seats',
  names: ['hour', 'supplier', 'mode', 'arm', 'publisher', 'domain'],
  sums: ['bids'],
}
const hours: HourTable = {
  all: 'ledger_hours',
  seats: 'ledger_hour_seats',
  names: hourKey,
  sums: ['n', 'bids', 'priced', 'late', 'over_count', 'margins', 'squares'],
  texts: ['cleared', 'out_ba', 'margin'],
}

function negative(name: string, isText: boolean): RawBuilder<unknown> {
  const value = sql.ref(name)
  if (!isText) return sql`-${value} as ${value}`
  return sql`case when ${value} like '-%' then substr(${value}, 2) else '-' || ${value} end as ${value}`
}

/** `within` selects the hours: databases read only those of each part. */
function rowsOf(
  { all, seats, names, sums, texts = [] }: HourTable,
  postgres: boolean,
  within: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const key = sql.join(names.map((name) => sql.ref(name)))
  const figures = [...sums, ...texts]
  const plain = sql.join(figures.map((name) => sql.ref(name)))
  const minus = sql.join(figures.map((name) => negative(name, !postgres && texts.includes(name))))
  return sql`(select ${key}, '' as seat, ${plain} from ${sql.table(all)} where ${within}
    union all select ${key}, seat, ${plain} from ${sql.table(seats)} where ${within}
    union all select ${key}, '' as seat, ${minus} from ${sql.table(seats)} where ${within})`
}

export const decidedBySeat = (postgres: boolean, within: RawBuilder<unknown>) =>
  (rowsOf(decided, postgres, within) as RawBuilder<WithSeat<DecidedRow>>).as('decided')

export const hoursBySeat = (postgres: boolean, within: RawBuilder<unknown>) =>
  (rowsOf(hours, postgres, within) as RawBuilder<WithSeat<HourRow>>).as('ledger_hours')
