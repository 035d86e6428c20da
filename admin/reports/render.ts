/** A report, from its request to JSON or CSV. */
import type { Column, ReportRow } from './report-query.ts'
import { type ReportRules, readRows, type Scope } from './rows.ts'
import type { Source } from './scope.ts'

export interface ReportRequest {
  scope: Scope
  columns: readonly Column[]
  format: 'json' | 'csv'
  rules: ReportRules
}

const decimalText = /^-?\d+(\.\d+)?$/

/**
 * A CSV cell (RFC 4180). A text that a spreadsheet would run as a formula gets an apostrophe; negative amounts stay
 * numbers. Cells with semicolons or tabs are quoted, since some programs split cells there.
 */
function cell(value: unknown): string {
  const text =
    value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
  const formula =
    typeof value === 'string' && /^[=+\-@＝＋－＠\t\r\n]/.test(text) && !decimalText.test(text)
  const plain = formula ? `'${text}` : text
  return /[",;\t\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

function render(
  rows: readonly ReportRow[],
  columns: readonly Column[],
  format: 'json' | 'csv',
): string {
  if (format === 'json')
    return JSON.stringify(
      rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]]))),
    )
  const lines = rows.map((row) => columns.map((name) => cell(row[name])).join(','))
  return `${[columns.join(','), ...lines].join('\r\n')}\r\n`
}

/** Runs a report. The result has a buffer of its own, so that it can be transferred to another thread. */
export async function report(
  source: Source,
  request: ReportRequest,
): Promise<Uint8Array<ArrayBuffer>> {
  const rows = await readRows(source, request.scope, request.rules)
  return new TextEncoder().encode(render(rows, request.columns, request.format))
}
