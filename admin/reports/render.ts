/** A report, from its request to JSON or CSV. */
import { decimalText, signedDecimal } from '../../opd/base/decimal.ts'
import type { ReportRules } from './arms.ts'
import type { Column, Money, ReportRow } from './columns.ts'
import { readRows } from './rows.ts'
import type { Group, Scope, Source } from './scope.ts'

export interface ReportRequest {
  scope: Scope
  columns: readonly Column[]
  format: 'json' | 'csv'
  rules: ReportRules
  /** At most this many rows: those with the largest values of a column. */
  top?: { rows: number; by: Column } | undefined
}

const sumNames = [
  'revenue',
  'cleared',
  'out_ba',
  'margin',
  'difference',
] as const satisfies readonly Column[]

function unitsOf(cpm: string): string {
  const { digits, scale } = signedDecimal(cpm)
  return decimalText({ digits, scale: scale + 3 })
}

/**
 * Sums of CPM are for a thousand impressions: the amounts in currency units, exact.
 *
 * @param sums CPM, decimal texts
 */
export function inUnits<T extends Money>(sums: T): T {
  const units = { ...sums }
  for (const name of sumNames) units[name] = unitsOf(sums[name])
  return units
}

const withUnits = (row: ReportRow): ReportRow => ({
  ...inUnits(row),
  unproven: unitsOf(row.unproven),
  no_rate: Object.fromEntries(
    Object.entries(row.no_rate).map(([currency, sums]) => [currency, inUnits(sums)]),
  ),
})

const topRows = (rows: ReportRow[], { top }: ReportRequest): ReportRow[] =>
  top === undefined
    ? rows
    : rows.toSorted((one, other) => Number(other[top.by]) - Number(one[top.by])).slice(0, top.rows)

const isDecimal = /^-?\d+(\.\d+)?$/

function cellText(value: unknown): string {
  if (value === null) return ''
  // ten digits are more than any estimate has
  if (typeof value === 'number' && !Number.isInteger(value))
    return String(Number(value.toPrecision(10)))
  if (typeof value !== 'object') return String(value)
  return Object.keys(value).length === 0 ? '' : JSON.stringify(value)
}

/**
 * A CSV cell (RFC 4180). A text that a spreadsheet would run as a formula gets an apostrophe; negative amounts stay
 * numbers. Cells with semicolons or tabs are quoted, since some programs split cells there.
 */
function cell(value: unknown): string {
  const text = cellText(value)
  const formula =
    typeof value === 'string' && /^[=+\-@|＝＋－＠｜\t\r\n]/.test(text) && !isDecimal.test(text)
  const plain = formula ? `'${text}` : text
  return /[",;\t\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

/** The name of each column in CSV: the keys have the names of their groupings, and the second one is absent without one. */
function csvNames(columns: readonly Column[], { by, then }: Scope): [Column, string][] {
  const nameOf = (group: Group) => (group === 'ssp' ? 'supplier' : group)
  return columns.flatMap((column): [Column, string][] => {
    if (column === 'key') return [[column, nameOf(by)]]
    if (column === 'key2') return then === undefined ? [] : [[column, nameOf(then)]]
    return [[column, column]]
  })
}

function render(rows: readonly ReportRow[], { columns, format, scope }: ReportRequest): string {
  if (format === 'json')
    return JSON.stringify(
      rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]]))),
    )
  const named = csvNames(columns, scope)
  const lines = rows.map((row) => named.map(([column]) => cell(row[column])).join(','))
  return `${[named.map(([, name]) => name).join(','), ...lines].join('\r\n')}\r\n`
}

/** Runs a report. The result has a buffer of its own, so that it can be transferred to another thread. */
export async function report(
  source: Source,
  request: ReportRequest,
): Promise<Uint8Array<ArrayBuffer>> {
  const rows = await readRows(source, request.scope, request.rules)
  const shown = topRows(rows, request).map(withUnits)
  return new TextEncoder().encode(render(shown, request))
}
