/** The parameters of a report (CONTRACT 11). */
import type { FastifyRequest } from 'fastify'
import * as z from 'zod'
import { vias } from '../../opd/shared/arms.ts'
import { devices, facetNames, formats } from '../../opd/shared/facets.ts'
import { queryOf } from '../http/call.ts'
import { malformed } from '../http/problem.ts'
import { day } from '../store/hour.ts'
import { facetOf, type Group, groups, partsOf } from './scope.ts'
import { instantOf, isZone } from './zone.ts'

const longestSpan = 400 * day

const isoTime = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/

interface SentTime {
  /** Milliseconds since the epoch; without a zone, as if the text were in UTC. */
  time: number
  hasZone: boolean
}

/** null: not a time. A day that does not exist is invalid. */
function readTime(sent: string): SentTime | null {
  // the plus of a zone, if it was not escaped
  const text = sent.replace(/ (?=\d\d:\d\d$)/, '+')
  if (/^\d{1,16}$/.test(text))
    return Number.isSafeInteger(Number(text)) ? { time: Number(text), hasZone: true } : null
  const [timeText, date, time, , , zone] = isoTime.exec(text) ?? []
  if (timeText === undefined) return null
  const midnight = new Date(`${date}T00:00:00Z`)
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(date!)) return null
  const hasZone = zone !== undefined
  // Date.parse takes a date for UTC, and a time without a zone for the zone of this machine
  const timestamp = Date.parse(time === undefined || hasZone ? timeText : `${timeText}Z`)
  return Number.isNaN(timestamp) ? null : { time: timestamp, hasZone }
}

/** A date, a time, or milliseconds since 1970. */
export const time = z
  .string()
  .transform((text, { addIssue }): SentTime => {
    const time = readTime(text)
    if (time === null)
      addIssue('must be a date, a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970')
    return time ?? { time: 0, hasZone: true }
  })
  .optional()
  .meta({ type: ['string', 'integer'] })

const names = ['supplier', ...groups].join('|')
/** With the name that the supplier has in reports first. */
const listed = groups.map((name) => (name === 'ssp' ? 'supplier (or ssp)' : name)).join(', ')

const grouping = z
  .string()
  .default('ssp')
  .transform((text, { addIssue }): { by: Group; then?: Group } => {
    const names = text.split(',').map((name) => (name === 'supplier' ? 'ssp' : name))
    const [by = 'ssp', then] = names as Group[]
    const known = names.every((name) => groups.some((group) => group === name))
    if (!known || names.length > 2 || by === then) addIssue(`must be one or two of ${listed}`)
    return then === undefined ? { by } : { by, then }
  })
  .meta({ type: 'string', pattern: `^(${names})(,(${names}))?$`, default: 'ssp' })

/** A filter by what the sums of a report distinguish alone. */
const facet = (what: string) => z.string().optional().describe(`Only bids of this ${what}`)

const rowLimit = 'must be a whole number from 1 to 100000'

export const querySchema = z.strictObject({
  ssp: z.string().optional().describe('Only this supplier'),
  publisher: z.string().optional().describe('Only this publisher'),
  // as the ledger has it
  domain: z.string().toLowerCase().optional().describe('Only this domain'),
  seat: z.string().optional().describe('Only this seat; empty: only bids whose seat is not known'),
  via: z
    .enum(vias, { error: `must be one of ${vias.join(', ')}` })
    .optional()
    .describe(
      'Only bids that were priced in bid responses (proxy), by standalone calls, or by agent calls',
    ),
  country: facet('country: an ISO 3166 code as it was sent, in capitals'),
  device: facet(`type of device: ${devices.filter((name) => name !== '').join(', ')}`),
  ad_format: facet(`format: ${formats.filter((name) => name !== '').join(', ')}`),
  size: facet('size, such as 300x250'),
  deal: facet('deal; empty: only bids without one'),
  from: time.describe(
    'Start of the range: a date, a time (in `tz` unless it has a zone), or milliseconds since 1970; by default a day before `to`',
  ),
  to: time.describe('End of the range, exclusive; by default now'),
  by: grouping.describe(`The grouping of the rows: one or two of ${listed}, separated by a comma`),
  tz: z
    .string()
    .refine(isZone, 'must be an IANA time zone such as America/New_York')
    .default('UTC')
    .describe('Time zone of days, and of times without a zone'),
  top: z
    .number(rowLimit)
    .int(rowLimit)
    .min(1, rowLimit)
    .max(100_000, rowLimit)
    .optional()
    .describe(
      'Only this many rows: those with the largest margin, or the most wins or decided bids',
    ),
  format: z
    .enum(['json', 'csv'], { error: 'must be one of json, csv' })
    .default('json')
    .describe('JSON or RFC 4180 CSV'),
})

/**
 * Milliseconds since the epoch.
 *
 * @param tz IANA zone of a time without one
 * @param otherwise milliseconds since the epoch, if no time was sent
 */
export function instantIn(time: SentTime | undefined, tz: string, otherwise: number): number {
  if (time === undefined) return otherwise
  return time.hasZone ? time.time : instantOf(time.time, tz)
}

type ReportQuery = Omit<z.output<typeof querySchema>, 'by' | 'from' | 'to'> &
  z.output<typeof grouping> & { from: number; to: number }

export function reportOf(request: FastifyRequest, now: number): ReportQuery {
  const { by, from: start, to: end, ...rest } = queryOf(querySchema, request)
  const to = instantIn(end, rest.tz, now + 1)
  const from = instantIn(start, rest.tz, to - day)
  if (to - from > longestSpan)
    throw malformed([{ pointer: 'from', detail: 'a report covers at most 400 days' }])
  if (from > to) throw malformed([{ pointer: 'from', detail: 'from is later than to' }])
  const [first, second] = partsOf({ ...rest, ...by })
  if (second !== undefined && facetOf({ ...rest, ...by }) !== null)
    throw malformed([
      {
        pointer: 'by',
        detail: `${first} and ${second} cannot be combined: of ${facetNames.join(', ')} a report has one, with supplier, via, hour or day`,
      },
    ])
  return { ...rest, ...by, from, to }
}
