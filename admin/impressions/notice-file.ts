/**
 * Win and loss notices in files of platforms that call no URL (log-level files): NDJSON, or CSV with a header. The names are
 * the parameters of the calls; `event` may be `loss`, and `time` is when the event happened.
 */
import { plain } from '../../opd/base/decimal.ts'
import { textLines } from '../../opd/state/text-lines.ts'
import { type Notice, parseLoss, parseNotice } from './notice.ts'

const names = [
  'bid_id',
  'price',
  'event',
  'time',
  'ssp',
  'cur',
  'svc_opd',
  'price_dsp',
  'min_to_win',
  'loss',
] as const
type Name = (typeof names)[number]
export const noticeColumns: readonly string[] = names

/** Where the file has a member under another name: name of ours, name of theirs. */
export type ColumnNames = Readonly<Partial<Record<Name, string>>>

export interface FileNotice {
  file: string
  /** From 1. */
  line: number
  isLoss: boolean
  notice: Notice
  /** Milliseconds since the epoch; null: the file does not say. */
  time: number | null
}
export interface FileFault {
  file: string
  line: number
  fault: string
}

type Values = Partial<Record<Name, string>>

/** The cells of a line of CSV (RFC 4180, without line breaks in cells); null: a quote is not closed. */
function csvCells(text: string): string[] | null {
  const cells: string[] = []
  const cell = /(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/y
  for (;;) {
    const match = cell.exec(text)
    if (match === null) return null
    cells.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '')
    if (match[3] === '') return cells
  }
}

/** Milliseconds since the epoch; null: not a time. */
function timeOf(text: string): number | null {
  const time = /^\d{1,16}$/.test(text) ? Number(text) : Date.parse(text)
  return Number.isFinite(time) ? time : null
}

/** Strings and numbers; other values count as absent. */
function valuesOf(row: Readonly<Record<string, unknown>>, columns: ColumnNames): Values {
  const values: Values = {}
  for (const name of names) {
    const value = row[columns[name] ?? name]
    if (typeof value === 'string') values[name] = value
  }
  return values
}

function noticeOf({
  time,
  event = '',
  ...values
}: Values): Omit<FileNotice, 'file' | 'line'> | string {
  const timestamp = time === undefined || time === '' ? null : timeOf(time)
  if (timestamp === null && time !== undefined && time !== '') return 'time is not a time'
  const isLoss = event === 'loss'
  const parsed = isLoss ? parseLoss(values, '') : parseNotice({ ...values, event }, '', true)
  if ('faults' in parsed) return parsed.faults.map(({ detail }) => detail).join(', ')
  return { isLoss, notice: parsed.notice, time: timestamp }
}

/** Numbers as decimal text: a bid id may have more digits than a number of JavaScript, and no price is rounded. */
const asText = (_key: string, value: unknown, { source }: { source?: string } = {}) =>
  typeof value === 'number' ? plain(source ?? String(value)) : value

/** The row of a line of NDJSON, or why it has none. */
function jsonRow(text: string): Record<string, unknown> | string {
  try {
    const row: unknown = JSON.parse(text, asText)
    return typeof row === 'object' && row !== null && !Array.isArray(row)
      ? (row as Record<string, unknown>)
      : 'is no JSON object'
  } catch {
    return 'is not JSON'
  }
}

/** Why cells are not the header of a CSV file of notices; null: they are. `bidId`: the name of the column of bid ids. */
function headerFault(cells: readonly string[] | null, bidId: string): string | null {
  // Lines that end otherwise than with a line feed are one line.
  if (cells === null || cells.some((cell) => /\p{Cc}/u.test(cell)))
    return 'is neither JSON nor a header of CSV'
  const repeated = cells.find((cell, index) => cells.indexOf(cell) < index)
  if (repeated !== undefined) return `has the column ${repeated} twice`
  return cells.includes(bidId) ? null : `is neither JSON nor a header of CSV with ${bidId}`
}

/** Reads the rows of a file: its first line says whether it is CSV. */
class Rows {
  private readonly bidId: string
  private header: readonly string[] | null = null
  private isFirst = true

  /** @param columns see `readNotices` */
  constructor({ bid_id: bidId = 'bid_id' }: ColumnNames) {
    this.bidId = bidId
  }

  /** null: the line has no row. */
  read(text: string): Record<string, unknown> | string | null {
    const isFirst = this.isFirst
    this.isFirst = false
    if (isFirst && !text.startsWith('{')) {
      const header = csvCells(text)
      const fault = headerFault(header, this.bidId)
      this.header = fault === null ? header : null
      return fault
    }
    const { header } = this
    if (header === null) return jsonRow(text)
    const cells = csvCells(text)
    if (cells === null) return 'is not CSV: a quote is not closed'
    if (cells.length !== header.length)
      return `has ${cells.length} cells, and the header ${header.length}`
    return Object.fromEntries(header.map((name, index) => [name, cells[index]!]))
  }
}

/**
 * The notices of a file, gzip or plain, and the faults of its lines.
 *
 * @param file path
 * @param columns names of the columns of a CSV file that are other than the parameters of a notice
 */
export async function* readNotices(
  file: string,
  columns: ColumnNames = {},
): AsyncGenerator<FileNotice | FileFault> {
  const rows = new Rows(columns)
  for await (const batch of textLines(file))
    for (const { number: line, text, fault: unreadable } of batch) {
      if (text === '') continue
      const row = text === null ? unreadable : rows.read(text)
      if (row === null) continue
      const notice = typeof row === 'string' ? row : noticeOf(valuesOf(row, columns))
      yield typeof notice === 'string' ? { file, line, fault: notice } : { file, line, ...notice }
    }
}
