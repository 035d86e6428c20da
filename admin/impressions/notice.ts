/** Parses the parameters of a win notice and reports every invalid one (CONTRACT 6). */
import * as z from 'zod'
import { parsedQuery } from '../http/call.ts'
import type { ProblemFault } from '../http/problem.ts'
import { storable } from '../store/tables.ts'

export interface Notice {
  bidId: string
  /**
   * Other ways to decode the bid id: platforms put ids into URLs without escaping, with `+` and `%` among the
   * characters.
   */
  otherBidIds?: readonly string[]
  /** Plain decimal text, CPM; `AUDIT` is the test rendering of OpenRTB 4.4. */
  price: string
  svcOpd: string | undefined
  ssp: string | undefined
  event: 'win' | 'billing'
  priceDsp: string | undefined
}

type ParsedNotice = { notice: Notice } | { faults: ProblemFault[] }

export const auditPrice = 'AUDIT'
const longestNumber = 64

const hasMacro = (value: string) => value.includes('${') || /%24%7b/i.test(value)
const expanded = z
  .string()
  .refine((value) => !hasMacro(value), 'holds a macro that was not expanded')

/** The fault of a text that is not a plain decimal. */
function decimalFault(value: string): string | null {
  if (hasMacro(value)) return 'holds a macro that was not expanded'
  if (value.startsWith('-')) return 'is negative'
  if (!/^\d+(\.\d+)?$/.test(value)) return 'is not a plain decimal such as 1.25'
  return value.length > longestNumber ? `is longer than ${longestNumber} digits` : null
}
const price = z
  .string()
  .superRefine((value, { addIssue }) => {
    const fault = value === auditPrice ? null : decimalFault(value)
    if (fault !== null) addIssue(fault)
  })
  .meta({ pattern: '^([0-9]+(\\.[0-9]+)?|AUDIT)$' })

/** An unexpanded macro in `svc_opd` is no fault: the context counts as absent. */
export const noticeSchema = z.object({
  bid_id: expanded.describe('The id of the winning bid, as in the bid response'),
  price: price.describe(
    'The cleared price, the expansion of `${AUCTION_PRICE}`; `AUDIT` is a test that is not counted',
  ),
  svc_opd: z.string().optional().describe('The context, the expansion of `${SVC_OPD_CONTEXT}`'),
  ssp: expanded.optional().describe('The supplier, if several suppliers may use the same bid id'),
  event: z
    .enum(['win', 'billing'], { error: 'is not one of win, billing' })
    .default('win')
    .describe('`win` (the default) or `billing`; each counts once for a decision'),
  price_dsp: price.optional().describe('The demand-side price, for integrations with `priceDsp`'),
})

/**
 * `+` is a space in a form and itself in RFC 3986, and an id without escaping may contain `%` (`a%3D` may be the id).
 * Returns the readings that differ from the first one, in this order.
 */
function otherReadings(url: string, bidId: string): { otherBidIds?: string[] } {
  const raw = /[?&]bid_id=([^&#]*[+%][^&#]*)/.exec(url)?.[1]
  if (raw === undefined) return {}
  const readings = [raw]
  try {
    readings.unshift(decodeURIComponent(raw))
  } catch {
    // an invalid escape cannot be decoded
  }
  const otherBidIds = [...new Set(readings)].filter((each) => each !== bidId)
  return otherBidIds.length > 0 ? { otherBidIds } : {}
}

/** `url` is the URL of the request: the parsed query no longer has the original escapes. */
export function parseNotice(query: object, url: string): ParsedNotice {
  // an empty parameter counts as absent
  const sent = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''))
  const result = parsedQuery(noticeSchema, sent)
  if ('faults' in result) return result
  const { bid_id, svc_opd, ssp, event, price_dsp, ...value } = result.value
  // a test rendering has `AUDIT` in all its prices
  if (price_dsp === auditPrice && value.price !== auditPrice) {
    const detail = `price_dsp ${decimalFault(auditPrice)}`
    return { faults: [{ pointer: 'price_dsp', detail }] }
  }
  return {
    notice: {
      bidId: bid_id,
      ...otherReadings(url, bid_id),
      price: value.price,
      svcOpd: svc_opd,
      ssp: ssp === undefined ? undefined : storable(ssp),
      event,
      priceDsp: price_dsp,
    },
  }
}
