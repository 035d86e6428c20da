/** The parameters and columns of the reports (CONTRACT 11). */
import type { ProblemFault } from '../http/problem.ts'
import { day } from '../store/hour.ts'
import type { ReportRow } from './rows.ts'
import { type Group, groups } from './scope.ts'

/** The columns of each report, in order. A new row here adds a report. */
export const reports: Readonly<Record<string, readonly (keyof ReportRow)[]>> = {
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
}
const longestSpan = 400 * day

export const formats = ['json', 'csv'] as const

export interface ReportQuery {
  ssp: string | undefined
  from: number
  to: number
  by: Group
  format: (typeof formats)[number]
}

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

export function parsedQuery(
  query: Readonly<Record<string, unknown>>,
  now: number,
): ReportQuery | ProblemFault[] {
  const faults: ProblemFault[] = []
  const one = (name: string) => {
    const value = query[name]
    if (Array.isArray(value)) faults.push({ pointer: name, detail: `${name} is repeated` })
    return typeof value === 'string' ? value : undefined
  }
  const time = (name: string, otherwise: number) => {
    const text = one(name)
    if (text === undefined) return otherwise
    const at = instant(text)
    if (at === null)
      faults.push({
        pointer: name,
        detail: `${name} must be a date, a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970`,
      })
    return at ?? otherwise
  }
  const choice = <T extends string>(name: string, allowed: readonly T[]): T => {
    const value = one(name) ?? allowed[0]!
    if (!allowed.includes(value as T))
      faults.push({ pointer: name, detail: `${name} must be one of ${allowed.join(', ')}` })
    return value as T
  }
  const to = time('to', now + 1)
  const from = time('from', to - day)
  if (to - from > longestSpan)
    faults.push({ pointer: 'from', detail: 'a report periods at most 400 days' })
  if (from > to) faults.push({ pointer: 'from', detail: 'from is later than to' })
  const known = ['ssp', 'from', 'to', 'by', 'format']
  for (const name of Object.keys(query))
    if (!known.includes(name))
      faults.push({ pointer: name, detail: `the parameters are ${known.join(', ')}` })
  const ssp = one('ssp')
  const result = {
    ssp,
    from,
    to,
    by: choice('by', groups),
    format: choice('format', formats),
  }
  return faults.length > 0 ? faults : result
}
