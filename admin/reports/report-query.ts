/** The parameters and columns of the reports (CONTRACT 11). */

import type { FastifyRequest } from 'fastify'
import * as z from 'zod'
import { queryOf } from '../http/call.ts'
import { malformed } from '../http/problem.ts'
import { day } from '../store/hour.ts'
import { type Group, groups } from './scope.ts'
import { instantOf, offsetAt } from './zone.ts'

const money = z
  .string()
  .regex(/^-?[0-9]+(\.[0-9]+)?$/)
  .describe('Exact decimal, in units of `currency`')
const count = z.int().min(0)
const figure = z.number().nullable()
const sums = {
  revenue: money,
  cleared: money,
  out_ba: money,
  margin: money,
  difference: money.describe('Cleared price minus out_ba, exact decimal, in units of `currency`'),
}

const columns = {
  ...sums,
  key: z.string().describe('Of the first grouping; times are ISO 8601 in `tz`'),
  key2: z.string().nullable().describe('Of the second grouping; null with one'),
  currency: z.string().describe('Currency of all amounts but those of `no_rate`'),
  decided: count,
  wins: count,
  unattributed: count,
  duplicate: count.describe('Repeated notices, counted by whole hours'),
  rejected: count,
  voided: count.describe('Wins that an operator has removed from all sums'),
  late: count,
  over: count,
  no_rate: z
    .record(z.string(), z.strictObject({ ...sums, wins: count }))
    .describe(
      'Money in currencies without a rate, each in its own currency; the sums do not contain it',
    ),
  win_rate: figure,
  kept: figure.describe(
    'Win rate of optimized bids divided by that of the holdout, with a 95 % interval that is valid at any time; null without a holdout',
  ),
  kept_low: figure,
  kept_high: figure,
  uplift: figure.describe(
    'Margin per bid of optimized bids minus that of the holdout, in units of `currency` for 1,000 bids, with such an interval',
  ),
  uplift_low: figure,
  uplift_high: figure,
}
export type Money = { [K in keyof typeof sums]: string }
export type ReportRow = z.infer<z.ZodObject<typeof columns>>
export type Column = keyof ReportRow

/** The columns of each report, in order. A new entry here adds a report and its call. */
export const reports = {
  margin: [
    'key',
    'key2',
    'decided',
    'wins',
    'revenue',
    'cleared',
    'margin',
    'no_rate',
    'uplift',
    'uplift_low',
    'uplift_high',
    'currency',
  ],
  wins: ['key', 'key2', 'decided', 'wins', 'win_rate', 'kept', 'kept_low', 'kept_high', 'currency'],
  discrepancy: [
    'key',
    'key2',
    'decided',
    'wins',
    'unattributed',
    'duplicate',
    'rejected',
    'voided',
    'late',
    'over',
    'out_ba',
    'cleared',
    'difference',
    'no_rate',
    'currency',
  ],
} as const satisfies Record<string, readonly Column[]>

export const rowsSchema = (names: readonly Column[]) =>
  z.array(z.strictObject(Object.fromEntries(names.map((name) => [name, columns[name]]))))

/** What `top` selects by. */
export const largest = {
  margin: 'margin',
  wins: 'wins',
  discrepancy: 'decided',
} as const satisfies Record<keyof typeof reports, Column>

const longestSpan = 400 * day

const isoTime = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/

interface Instant {
  at: number
  /** The text named no zone. */
  wall: boolean
}

/** null: not a time. A day that does not exist is invalid. */
function instant(sent: string): Instant | null {
  // the plus of a zone, if it was not escaped
  const text = sent.replace(/ (?=\d\d:\d\d$)/, '+')
  if (/^\d{1,16}$/.test(text))
    return Number.isSafeInteger(Number(text)) ? { at: Number(text), wall: false } : null
  const [whole, date, time, , , zone] = isoTime.exec(text) ?? []
  if (whole === undefined) return null
  const midnight = new Date(`${date}T00:00:00Z`)
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(date!)) return null
  const wall = zone === undefined
  const at = Date.parse(time !== undefined && wall ? `${whole}Z` : whole)
  return Number.isNaN(at) ? null : { at, wall }
}

/** A date, a time, or milliseconds since 1970. */
const time = z
  .string()
  .transform((text, { addIssue }): Instant => {
    const at = instant(text)
    if (at === null)
      addIssue('must be a date, a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970')
    return at ?? { at: 0, wall: false }
  })
  .optional()
  .meta({ type: ['string', 'integer'] })

function isZone(name: string): boolean {
  try {
    offsetAt(0, name)
    return true
  } catch {
    return false
  }
}

const names = ['supplier', ...groups].join('|')

const grouping = z
  .string()
  .default('ssp')
  .transform((text, { addIssue }): { by: Group; then?: Group } => {
    const names = text.split(',').map((name) => (name === 'supplier' ? 'ssp' : name))
    const [by = 'ssp', then] = names as Group[]
    const known = names.every((name) => groups.some((group) => group === name))
    if (!known || names.length > 2 || by === then)
      addIssue(`must be one or two of ${groups.join(', ')}`)
    return then === undefined ? { by } : { by, then }
  })
  .meta({ type: 'string', pattern: `^(${names})(,(${names}))?$`, default: 'ssp' })

const oneOf = <const T extends readonly string[]>(names: T) =>
  z.enum(names, { error: `must be one of ${names.join(', ')}` }).default(names[0]!)

export const querySchema = z.strictObject({
  ssp: z.string().optional().describe('Only this supplier'),
  publisher: z.string().optional().describe('Only this publisher'),
  // as the ledger has it
  domain: z.string().toLowerCase().optional().describe('Only this domain'),
  seat: z.string().optional().describe('Only this seat; empty: only bids whose seat is not known'),
  from: time.describe(
    'Start of the range: a date, a time (in `tz` unless it has a zone), or milliseconds since 1970; by default a day before `to`',
  ),
  to: time.describe('End of the range, exclusive; by default now'),
  by: grouping.describe(
    'The grouping of the rows: one or two of supplier (or ssp), seat, publisher, domain, hour, day, separated by a comma',
  ),
  tz: z
    .string()
    .refine(isZone, 'must be an IANA time zone such as America/New_York')
    .default('UTC')
    .describe('Time zone of days, and of times without a zone'),
  top: z
    .number('must be a whole number from 1 to 100000')
    .int('must be a whole number from 1 to 100000')
    .min(1, 'must be a whole number from 1 to 100000')
    .max(100_000, 'must be a whole number from 1 to 100000')
    .optional()
    .describe(
      'Only this many rows: those with the largest margin, or the most wins or decided bids',
    ),
  format: oneOf(['json', 'csv']).describe('JSON or RFC 4180 CSV'),
})

type ReportQuery = Omit<z.output<typeof querySchema>, 'by' | 'from' | 'to'> &
  z.output<typeof grouping> & { from: number; to: number }

export function reportOf(request: FastifyRequest, now: number): ReportQuery {
  const { by, from: start, to: end, ...rest } = queryOf(querySchema, request)
  const at = (time: Instant | undefined, otherwise: number) =>
    time === undefined ? otherwise : time.wall ? instantOf(time.at, rest.tz) : time.at
  const to = at(end, now + 1)
  const from = at(start, to - day)
  if (to - from > longestSpan)
    throw malformed([{ pointer: 'from', detail: 'a report covers at most 400 days' }])
  if (from > to) throw malformed([{ pointer: 'from', detail: 'from is later than to' }])
  return { ...rest, ...by, from, to }
}
