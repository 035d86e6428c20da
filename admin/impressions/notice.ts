/** Parses the parameters of a win notice and reports every invalid one (CONTRACT 6). */

import { createHmac, timingSafeEqual } from 'node:crypto'
import * as z from 'zod'
import { decimal, decimalText, dividedBy, times } from '../../opd/base/decimal.ts'
import { type ClearingConfig, clearingDefaults } from '../../opd/config.ts'
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
  /** Plain decimal text, CPM, or as the supplier's `clearing` writes it; `AUDIT` is the test rendering of OpenRTB 4.4. */
  price: string
  /** The currency of the price, if the notice names it. */
  currency?: string | undefined
  /** The lowest price that would have won, CPM in the currency of the bid. */
  minToWin?: string | undefined
  /** Of a loss: its reason, list 5.25 of OpenRTB 2.6. */
  reason?: string | undefined
  svcOpd: string | undefined
  ssp: string | undefined
  event: 'win' | 'billing'
  priceDsp: string | undefined
  /** From a file, of a bid that is pending on no node. */
  past?: boolean
}

type ParsedNotice = { notice: Notice } | { faults: ProblemFault[] }

export const auditPrice = 'AUDIT'
const longestNumber = 64

const hasMacro = (value: string) => value.includes('${') || /%24%7b/i.test(value)
const expanded = z
  .string()
  .refine((value) => !hasMacro(value), 'holds a macro that was not expanded')

/** Whether a text is a plain decimal of at most 64 characters. */
export const plainDecimal = (value: string) => decimalFault(value) === null

/** The fault of a text that is not a plain decimal. */
function decimalFault(value: string): string | null {
  if (hasMacro(value)) return 'holds a macro that was not expanded'
  if (value.startsWith('-')) return 'is negative'
  if (!/^\d+(\.\d+)?$/.test(value)) return 'is not a plain decimal such as 1.25'
  return value.length > longestNumber ? `is longer than ${longestNumber} digits` : null
}
const decimalSchema = (faultOf: typeof decimalFault) =>
  z.string().superRefine((value, { addIssue }) => {
    const fault = faultOf(value)
    if (fault !== null) addIssue(fault)
  })
const price = decimalSchema((value) => (value === auditPrice ? null : decimalFault(value))).meta({
  pattern: '^([0-9]+(\\.[0-9]+)?|AUDIT)$',
})
const plainPrice = decimalSchema(decimalFault).meta({ pattern: '^[0-9]+(\\.[0-9]+)?$' })
const currency = z.string().regex(/^[A-Z]{3}$/, { error: 'is not a currency of ISO 4217' })
const bidId = expanded.meta({
  description: 'The id of the bid, as in the bid response',
  // an empty one counts as missing
  minLength: 1,
})
const svcOpd = z.string().optional().describe('The context, the expansion of `${SVC_OPD_CONTEXT}`')
const ssp = z
  .string()
  .optional()
  .describe('The supplier, if several suppliers may use the same bid id')
const minToWin = plainPrice
  .optional()
  .describe('The lowest price that would have won, the expansion of `${AUCTION_MIN_TO_WIN}`')

/** An unexpanded macro in `svc_opd` is no fault: the context counts as absent. */
export const noticeSchema = z.object({
  bid_id: bidId,
  price: price.describe(
    'The cleared price, the expansion of `${AUCTION_PRICE}`; `AUDIT` is a test that is not counted',
  ),
  svc_opd: svcOpd,
  ssp,
  cur: currency.optional().describe('The currency of the price, if it is not that of the bid'),
  min_to_win: minToWin,
  event: z
    .enum(['win', 'billing'], { error: 'is not one of win, billing' })
    .default('win')
    // an empty one counts as absent: no win is refused for it
    .meta({
      description:
        '`win` (the default, also if it is empty) or `billing`; each counts once for a decision',
      enum: ['win', 'billing', ''],
    }),
  price_dsp: price.optional().describe('The demand-side price, for integrations with `priceDsp`'),
})

/** The same for platforms whose prices are encoded or encrypted, as `clearing.encoding` of the supplier says. */
const encodedNoticeSchema = noticeSchema.extend({
  price: z
    .string()
    .max(256, 'is longer than 256 characters')
    .refine((value) => !hasMacro(value), 'holds a macro that was not expanded'),
})

export const lossSchema = z.object({
  bid_id: bidId,
  svc_opd: svcOpd,
  ssp,
  loss: z
    .string()
    .regex(/^\d{1,4}$/, { error: 'is not a loss reason code' })
    .optional()
    .meta({
      description:
        'The loss reason, list 5.25 of OpenRTB 2.6, the expansion of `${AUCTION_LOSS}`; empty: not known',
      pattern: '^\\d{0,4}$',
    }),
  min_to_win: minToWin,
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
  const otherBidIds = [...new Set(readings)].filter((reading) => reading !== bidId)
  return otherBidIds.length > 0 ? { otherBidIds } : {}
}

/** The parameters of all notices. `url` is the URL of the request: the parsed query no longer has the original escapes. */
const common = (
  url: string,
  { bid_id, svc_opd, ssp, min_to_win }: z.output<typeof lossSchema>,
) => ({
  bidId: bid_id,
  ...otherReadings(url, bid_id),
  svcOpd: svc_opd,
  ssp: ssp === undefined ? undefined : storable(ssp),
  minToWin: min_to_win,
})

/** Parameters that must be given. `svc_opd` is kept as it was sent, because unexpanded contexts are counted. */
const keptAsSent: ReadonlySet<string> = new Set(['bid_id', 'price', 'svc_opd'])

/** A parameter that is empty counts as absent, and so does an optional one with a macro that was not expanded. */
const isAbsent = (name: string, value: unknown) =>
  value === '' || (!keptAsSent.has(name) && typeof value === 'string' && hasMacro(value))

const present = (query: object) =>
  Object.fromEntries(Object.entries(query).filter(([name, value]) => !isAbsent(name, value)))

/** `encoded`: some suppliers encode their prices, so the price is checked later, when the supplier is known. */
export function parseNotice(query: object, url: string, encoded: boolean): ParsedNotice {
  const result = parsedQuery(encoded ? encodedNoticeSchema : noticeSchema, present(query))
  if ('faults' in result) return result
  const { price, event, price_dsp, cur } = result.value
  // a test rendering has `AUDIT` in all its prices
  if (price_dsp === auditPrice && price !== auditPrice) {
    const detail = `price_dsp ${decimalFault(auditPrice)}`
    return { faults: [{ pointer: 'price_dsp', detail }] }
  }
  return {
    notice: { ...common(url, result.value), price, event, priceDsp: price_dsp, currency: cur },
  }
}

/** A loss, as a notice without a price. */
export function parseLoss(query: object, url: string): ParsedNotice {
  const result = parsedQuery(lossSchema, present(query))
  if ('faults' in result) return result
  const notice = { ...common(url, result.value), reason: result.value.loss }
  return { notice: { ...notice, price: '0', event: 'win', priceDsp: undefined } }
}

/**
 * Cleared prices as platforms write them: a decimal, a decimal in base64, or encrypted as by Google Authorized Buyers
 * (developers.google.com/authorized-buyers/rtb/response-guide/decrypt-price); converted to the currency of the bid.
 */

type ClearedPrice = { price: string } | { pointer: 'price' | 'cur'; detail: string }

const ivBytes = 16
const priceBytes = 8
const signatureBytes = 4

const hmac = (key: string, ...parts: Buffer[]) =>
  parts
    .reduce((hash, part) => hash.update(part), createHmac('sha1', Buffer.from(key, 'base64')))
    .digest()

/** The price is in millionths of the currency for one impression, a thousandth of the CPM. */
function decrypted(text: string, keys: { encryption: string; integrity: string }): string | null {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length !== ivBytes + priceBytes + signatureBytes) return null
  const iv = bytes.subarray(0, ivBytes)
  const pad = hmac(keys.encryption, iv)
  const price = Buffer.from(bytes.subarray(ivBytes, ivBytes + priceBytes))
  for (let index = 0; index < priceBytes; index++) price[index]! ^= pad[index]!
  const signature = hmac(keys.integrity, price, iv).subarray(0, signatureBytes)
  if (!timingSafeEqual(signature, bytes.subarray(ivBytes + priceBytes))) return null
  return decimalText({ digits: price.readBigUInt64BE(), scale: 3 })
}

const base64 = /^[A-Za-z0-9+/_-]+={0,2}$/

function decoded(text: string, { encoding, keys }: ClearingConfig): string | null {
  if (encoding === 'plain') return text
  if (!base64.test(text)) return null
  const plain =
    encoding === 'google' ? decrypted(text, keys!) : Buffer.from(text, 'base64').toString('latin1')
  return plain !== null && plainDecimal(plain) ? plain : null
}

const faults = {
  plain: 'is not a plain decimal such as 1.25',
  base64: 'is not a plain decimal in base64, as clearing.encoding says',
  google: 'cannot be decrypted with clearing.keys',
} as const

/** `rateOf`: units of a currency for one unit of the base; null: not known. `bidCurrency` null: the bid is not known. */
export function clearedPrice(
  { price, currency }: { price: string; currency?: string | undefined },
  clearing: ClearingConfig = clearingDefaults,
  bidCurrency: string | null,
  rateOf: (currency: string) => number | null,
): ClearedPrice {
  const text = decoded(price, clearing)
  if (text === null || !plainDecimal(text))
    return { pointer: 'price', detail: `price ${faults[clearing.encoding]}` }
  const from = currency ?? clearing.currency ?? bidCurrency
  if (bidCurrency === null || from === null || from === bidCurrency) return { price: text }
  const [fromRate, toRate] = [rateOf(from), rateOf(bidCurrency)]
  if (fromRate === null || toRate === null)
    return { pointer: 'cur', detail: `there is no exchange rate from ${from} to ${bidCurrency}` }
  const inBid = times(decimal(text)!, decimal(String(toRate))!)
  return { price: decimalText(dividedBy(inBid, decimal(String(fromRate))!)) }
}
