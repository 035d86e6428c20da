/** Parses the parameters of a win notice and reports every invalid one (CONTRACT 6). */
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

export type ParsedNotice = { notice: Notice } | { faults: ProblemFault[] }

export const auditPrice = 'AUDIT'
const longestNumber = 64

type Query = Readonly<Record<string, string | string[] | undefined>>
/** Returns the fault of a value, or null. */
type Rule = (value: string) => string | null

const unexpanded: Rule = (value) =>
  value.includes('${') || /%24%7b/i.test(value) ? 'holds a macro that was not expanded' : null

const plainDecimal: Rule = (value) => {
  if (/^-/.test(value)) return 'is negative'
  if (!/^\d+(\.\d+)?$/.test(value)) return 'is not a plain decimal such as 1.25'
  return value.length > longestNumber ? `is longer than ${longestNumber} digits` : null
}

const price: Rule = (value) => (value === auditPrice ? null : plainDecimal(value))

const oneOf =
  (...allowed: string[]): Rule =>
  (value) =>
    allowed.includes(value) ? null : `is not one of ${allowed.join(', ')}`

const anything: Rule = () => null

/** For each parameter: whether it is required, whether an unexpanded macro is a fault, and the rule for its value. */
export const noticeParameters: Readonly<
  Record<string, { required: boolean; macro: Rule; value: Rule }>
> = {
  bid_id: { required: true, macro: unexpanded, value: anything },
  price: {
    required: true,
    macro: unexpanded,
    value: price,
  },
  svc_opd: { required: false, macro: anything, value: anything },
  ssp: { required: false, macro: unexpanded, value: anything },
  event: { required: false, macro: unexpanded, value: oneOf('win', 'billing') },
  price_dsp: { required: false, macro: unexpanded, value: price },
}

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
export function parseNotice(query: Query, url: string): ParsedNotice {
  const faults: ProblemFault[] = []
  const values: Record<string, string | undefined> = {}
  for (const [name, { required, macro, value: rule }] of Object.entries(noticeParameters)) {
    const given = query[name]
    if (Array.isArray(given)) faults.push({ pointer: name, detail: `${name} is repeated` })
    else if (given === undefined || given === '') {
      if (required) faults.push({ pointer: name, detail: `${name} is missing` })
    } else {
      const fault = macro(given) ?? rule(given)
      if (fault !== null) faults.push({ pointer: name, detail: `${name} ${fault}` })
      else values[name] = given
    }
  }
  // a test rendering has `AUDIT` in all its prices
  if (values['price_dsp'] === auditPrice && values['price'] !== auditPrice)
    faults.push({ pointer: 'price_dsp', detail: `price_dsp ${plainDecimal(auditPrice)}` })
  if (faults.length > 0) return { faults }
  return {
    notice: {
      bidId: values['bid_id']!,
      ...otherReadings(url, values['bid_id']!),
      price: values['price']!,
      svcOpd: values['svc_opd'],
      ssp: values['ssp'] === undefined ? undefined : storable(values['ssp']),
      event: (values['event'] ?? 'win') as Notice['event'],
      priceDsp: values['price_dsp'],
    },
  }
}
