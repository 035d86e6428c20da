/**
 * The rows that a report covers, and their grouping, as SQL. Whole hours are read from their sums, the rest from the
 * ledger.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { type FacetName, facetNames } from '../../opd/shared/facets.ts'
import { day, hour, hourOf } from '../store/hour.ts'
import { staleHours } from '../store/stale-hours.ts'
import { storable, type Tables } from '../store/tables.ts'
import { dayOf, textOf } from './zone.ts'

export const groups = [
  ...(['ssp', 'seat', 'publisher', 'domain', 'via'] as const),
  ...facetNames,
  ...(['hour', 'day'] as const),
] as const
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
  /** A second grouping within the first. */
  then?: Group | undefined
  publisher?: string | undefined
  domain?: string | undefined
  seat?: string | undefined
  via?: string | undefined
  country?: string | undefined
  device?: string | undefined
  /** `format`, whose name the parameter of the output has. */
  ad_format?: string | undefined
  size?: string | undefined
  deal?: string | undefined
  /** The time zone of days; UTC if absent. */
  tz?: string | undefined
  /** Only wins of hours in which the money of their supplier could not be checked. */
  unchecked?: boolean
}

const periods: Readonly<Record<string, number>> = { hour, day }

function keyOf(by: Group, time: string, tz: string | undefined): RawBuilder<string> {
  // days of another zone are put together from hours later
  const span = by === 'day' && tz !== undefined && tz !== 'UTC' ? hour : periods[by]
  if (span === undefined)
    return sql<string>`coalesce(${sql.ref(by === 'ssp' ? 'supplier' : by)}, '')`
  return sql<string>`cast((${sql.ref(time)} / ${sql.lit(span)}) * ${sql.lit(span)} as text)`
}

/** The group key of a row; `at` is the time column. With two groupings: `<length of the first>:<first><second>`. */
export function groupKey({ by, then, tz }: Scope, time: string): RawBuilder<string> {
  const first = keyOf(by, time, tz)
  if (then === undefined) return first
  return sql<string>`cast(length(${first}) as text) || ':' || ${first} || ${keyOf(then, time, tz)}`
}

const shownKey = (key: string, by: Group, tz: string) => {
  if (periods[by] === undefined) return key
  const time = Number(key)
  return textOf(by === 'day' && tz !== 'UTC' ? dayOf(time, tz) : time, tz)
}

/** The keys of a group, as the report shows them. */
export function shownKeys({ by, then, tz = 'UTC' }: Scope, key: string): [string, string | null] {
  if (then === undefined) return [shownKey(key, by, tz), null]
  const colon = key.indexOf(':')
  // databases count characters, not units of UTF-16
  const characters = [...key.slice(colon + 1)]
  const length = Number(key.slice(0, colon))
  return [
    shownKey(characters.slice(0, length).join(''), by, tz),
    shownKey(characters.slice(length).join(''), then, tz),
  ]
}

/** Whether the sums of each seat are needed. */
export const needsSeats = ({ by, then, seat }: Scope): boolean =>
  by === 'seat' || then === 'seat' || seat !== undefined

/** The parameter that limits a report to a value of a facet. */
const facetFilters = {
  country: 'country',
  device: 'device',
  format: 'ad_format',
  size: 'size',
  deal: 'deal',
} as const satisfies Record<FacetName, keyof Scope>

type Parts = Pick<Scope, 'by' | 'then' | 'seat' | 'publisher' | 'domain'> &
  Partial<Pick<Scope, (typeof facetFilters)[FacetName]>>

/** What the report groups by, or is limited to, of names that the sums of one facet do not distinguish; sorted. */
export function partsOf(scope: Parts): (FacetName | 'seat' | 'publisher' | 'domain')[] {
  const isUsed = (name: Group, filter: keyof Parts) =>
    scope.by === name || scope.then === name || scope[filter] !== undefined
  return [
    ...facetNames.filter((name) => isUsed(name, facetFilters[name])),
    ...(['seat', 'publisher', 'domain'] as const).filter((name) => isUsed(name, name)),
  ]
}

/** The facet whose sums are needed. */
export const facetOf = (scope: Parts): FacetName | null => {
  const [first] = partsOf(scope)
  return facetNames.find((name) => name === first) ?? null
}

export function inScope(scope: Scope) {
  const { suppliers, all, publisher, domain, seat, via } = scope
  const among = suppliers.map((id) => sql.lit(id))
  const conditions = [
    all ? sql`1 = 1` : among.length === 0 ? sql`1 = 0` : sql`supplier in (${sql.join(among)})`,
    ...(publisher === undefined ? [] : [sql`publisher = ${storable(publisher)}`]),
    ...(domain === undefined ? [] : [sql`domain = ${storable(domain)}`]),
    ...(via === undefined ? [] : [sql`coalesce(via, '') = ${via}`]),
    ...(seat === undefined ? [] : [sql`coalesce(seat, '') = ${storable(seat)}`]),
    ...facetNames.flatMap((name) => {
      const value = scope[facetFilters[name]]
      return value === undefined ? [] : [sql`coalesce(${sql.ref(name)}, '') = ${storable(value)}`]
    }),
  ]
  return sql<boolean>`${sql.join(conditions, sql` and `)}`
}

interface TimeRange {
  from: number
  to: number
}
export interface TimeRanges {
  ledger: TimeRange[]
  /** `stale`: hours within the range that are read from the ledger instead. */
  hours: (TimeRange & { stale: number[] }) | null
}

interface RollupState {
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
  const fromHour = (time: number, otherwise: number) => (time < sealed ? hourOf(time) : otherwise)
  const begin = fromHour(from, hourOf(from + hour - 1))
  const end = Math.min(until, to <= sealed ? hourOf(to + hour - 1) : hourOf(to))
  if (begin >= end) return { ledger: [{ from, to }], hours: null }
  const within = stale.filter((hour) => hour >= begin && hour < end)
  const ledger = [
    { from, to: begin },
    ...within.map((staleHour) => ({ from: staleHour, to: staleHour + hour })),
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
