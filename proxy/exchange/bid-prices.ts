/** Bids and their prices in a response, for the comparison of a canary. */
import { createScanner } from '../../opd/json/scanner.ts'
import { readBidResponse } from '../../opd/openrtb/response.ts'
import type { ResponseHead } from '../types.ts'
import { header } from '../wire/headers.ts'

/** Longer responses are not read for this. */
const longest = 64 * 1024

/** null: the response has a content encoding, is long, or is no bid response. */
export function bidPricesOf(
  { status, fields }: ResponseHead,
  body: Buffer,
): { bids: number; prices: number } | null {
  if (status !== 200 || body.length === 0 || body.length > longest) return null
  if (header(fields, 'content-encoding') !== undefined) return null
  const scan = createScanner(body)
  if (scan === null || !scan.isObject) return null
  const { seats } = readBidResponse(scan, null)
  const sums = { bids: 0, prices: 0 }
  for (const seat of seats)
    for (const { priceText } of seat.bids) {
      sums.bids++
      sums.prices += Number(priceText ?? 0)
    }
  return sums
}
