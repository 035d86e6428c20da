/** A report as text. */
import type { ReportRow } from './rows.ts'

const decimalText = /^-?\d+(\.\d+)?$/

/**
 * RFC 4180; a cell that a spreadsheet would take for a formula is told to be text, a negative amount is none. Where
 * semicolons or tabs part cells, what stands behind one in a cell of ours must not become another.
 */
function cell(value: unknown): string {
  const text =
    value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
  const formula =
    typeof value === 'string' && /^[=+\-@＝＋－＠\t\r\n]/.test(text) && !decimalText.test(text)
  const plain = formula ? `'${text}` : text
  return /[",;\t\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

export function render(
  rows: readonly ReportRow[],
  columns: readonly (keyof ReportRow)[],
  format: 'json' | 'csv',
): string {
  if (format === 'json')
    return JSON.stringify(
      rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]]))),
    )
  const lines = rows.map((row) => columns.map((name) => cell(row[name])).join(','))
  return `${[columns.join(','), ...lines].join('\r\n')}\r\n`
}
