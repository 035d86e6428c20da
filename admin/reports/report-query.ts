/** The parameters and columns of the reports (CONTRACT 11). */
import * as z from 'zod'
import { parsedQuery } from '../http/call.ts'
import type { ProblemFault } from '../http/problem.ts'
import { day } from '../store/hour.ts'
import { groups } from './scope.ts'

const money = z
  .string()
  .regex(/^-?[0-9]+(\.[0-9]+)?$/)
  .describe('Exact decimal, CPM')
const count = z.int().min(0)
const figure = z.number().nullable()
const sums = {
  revenue: money,
  cleared: money,
  out_ba: money,
  margin: money,
  difference: money.describe('Cleared price minus out_ba, exact decimal, CPM'),
}

const columns = {
  ...sums,
  key: z.string(),
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
    'Margin per bid of optimized bids minus that of the holdout, CPM in the base currency, with such an interval',
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
    'decided',
    'wins',
    'revenue',
    'cleared',
    'margin',
    'no_rate',
    'uplift',
    'uplift_low',
    'uplift_high',
  ],
  wins: ['key', 'decided', 'wins', 'win_rate', 'kept', 'kept_low', 'kept_high'],
  discrepancy: [
    'key',
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
  ],
} as const satisfies Record<string, readonly Column[]>

export const rowsSchema = (names: readonly Column[]) =>
  z.array(z.strictObject(Object.fromEntries(names.map((name) => [name, columns[name]]))))

const longestSpan = 400 * day

const isoTime = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/

/** Milliseconds since 1970, or null. A time without a zone is UTC; a day that does not exist is invalid. */
function instant(sent: string): number | null {
  // the plus of a zone, if it was not escaped
  const text = sent.replace(/ (?=\d\d:\d\d$)/, '+')
  if (/^\d{1,16}$/.test(text)) return Number.isSafeInteger(Number(text)) ? Number(text) : null
  const [whole, date, time, , , zone] = isoTime.exec(text) ?? []
  if (whole === undefined) return null
  const midnight = new Date(`${date}T00:00:00Z`)
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(date!)) return null
  const at = Date.parse(time !== undefined && zone === undefined ? `${whole}Z` : whole)
  return Number.isNaN(at) ? null : at
}

/** A date, a time, or milliseconds since 1970. */
const time = z
  .string()
  .transform((text, { addIssue }) => {
    const at = instant(text)
    if (at === null)
      addIssue('must be a date, a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970')
    return at ?? 0
  })
  .optional()
  .meta({ type: ['string', 'integer'] })

const oneOf = <const T extends readonly string[]>(names: T) =>
  z.enum(names, { error: `must be one of ${names.join(', ')}` }).default(names[0]!)

export const querySchema = z.strictObject({
  ssp: z.string().optional().describe('Only this supplier'),
  from: time.describe(
    'Start of the range: a date, a time (UTC unless it has a zone), or milliseconds since 1970; by default a day before `to`',
  ),
  to: time.describe('End of the range, exclusive; by default now'),
  by: oneOf(groups).describe('The grouping of the rows'),
  format: oneOf(['json', 'csv']).describe('JSON or RFC 4180 CSV'),
})

export type ReportQuery = z.output<typeof querySchema> & { from: number; to: number }

export function parsedReport(
  query: unknown,
  now: number,
): { value: ReportQuery } | { faults: ProblemFault[] } {
  const result = parsedQuery(querySchema, query)
  if ('faults' in result) return result
  const { to = now + 1, from = to - day } = result.value
  if (to - from > longestSpan)
    return { faults: [{ pointer: 'from', detail: 'a report covers at most 400 days' }] }
  if (from > to) return { faults: [{ pointer: 'from', detail: 'from is later than to' }] }
  return { value: { ...result.value, from, to } }
}
