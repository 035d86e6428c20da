/** The reports and their columns (CONTRACT 11). */
import * as z from 'zod'

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
  unproven: money.describe(
    'The part of `margin` of hours in which an alert said that the win notices of the supplier prove nothing, exact decimal, in units of `currency`',
  ),
  currency: z.string().describe('Currency of all amounts but those of `no_rate`'),
  decided: count,
  wins: count,
  unattributed: count,
  duplicate: count.describe('Repeated notices, counted by whole hours'),
  rejected: count,
  voided: count.describe('Wins that an operator has removed from all sums'),
  late: count,
  over: count,
  lowered: count.describe('Wins of bids whose price an agent call had lowered'),
  unapplied: count.describe(
    'Of `lowered`, those that the exchange did not apply: the bid won at its own price',
  ),
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
  kept_spend: figure.describe(
    'Spend per bid (wins weighted by revenue) of optimized bids divided by that of the holdout, with such an interval',
  ),
  kept_spend_low: figure,
  kept_spend_high: figure,
  uplift: figure.describe(
    'Margin per bid of optimized bids minus that of the holdout, in units of `currency` for 1,000 bids, with such an interval',
  ),
  uplift_low: figure,
  uplift_high: figure,
}
export type Money = { [K in keyof typeof sums]: string }
export type ReportRow = z.infer<z.ZodObject<typeof columns>>
export type Column = keyof ReportRow

export interface Report {
  summary: string
  /** In order. */
  columns: readonly Column[]
  /** The parameter `top` selects the rows with the largest values of this column. */
  largest: Column
}

/** By name. A new entry adds a report and its call. */
export const reports: Readonly<Record<string, Report>> = {
  margin: {
    summary: 'Revenue, cleared prices, margin and uplift',
    columns: [
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
    largest: 'margin',
  },
  wins: {
    summary: 'Wins, win rates, and how many wins and how much spend optimized bids keep',
    columns: [
      'key',
      'key2',
      'decided',
      'wins',
      'win_rate',
      'kept',
      'kept_low',
      'kept_high',
      'kept_spend',
      'kept_spend_low',
      'kept_spend_high',
      'currency',
    ],
    largest: 'wins',
  },
  discrepancy: {
    summary: 'Decided bids, notices by status, and cleared prices against prices sent',
    columns: [
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
      'lowered',
      'unapplied',
      'out_ba',
      'cleared',
      'difference',
      'no_rate',
      'currency',
    ],
    largest: 'decided',
  },
  summary: {
    summary: 'Bids, wins, money, kept wins and spend, and discrepancy, in one table',
    columns: [
      ...['key', 'key2', 'decided', 'wins', 'win_rate', 'revenue', 'cleared', 'margin', 'unproven'],
      ...['kept', 'kept_low', 'kept_high', 'kept_spend', 'kept_spend_low', 'kept_spend_high'],
      ...['out_ba', 'difference', 'unattributed', 'duplicate', 'rejected', 'voided', 'over'],
      ...['no_rate', 'currency'],
    ] as Column[],
    largest: 'margin',
  },
}

/** The rows of a report, as a schema of its own such as `MarginRow`. */
export const rowsSchema = (report: string, names: readonly Column[]) =>
  z.array(
    z
      .strictObject(Object.fromEntries(names.map((name) => [name, columns[name]])))
      .meta({ id: `${report.charAt(0).toUpperCase()}${report.slice(1)}Row` }),
  )
