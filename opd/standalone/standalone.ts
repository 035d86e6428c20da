/**
 * The standalone price handler (CONTRACT 7): the eligibility and the pricing of bid responses, for bids that do not pass the
 * proxy. Every bid gets an entry with a context, in the order of the call.
 */
import type { Integration } from '../config.ts'
import { createScanner } from '../json/scanner.ts'
import { checkEligibility, ineligibleBid, type Rules } from '../openrtb/eligibility.ts'
import type { Rates } from '../shared/rates.ts'
import type { EligibleBid, PriceBid } from '../shared/reasons.ts'
import type { Fault, StandaloneEntry, StandaloneResult } from '../types.ts'
import { readCall, type StandaloneBid, type StandaloneCall } from './call.ts'
import { faultsOf } from './faults.ts'

const unreadable =
  'The body is not JSON in UTF-8 (RFC 8259), is nested deeper than 1,000, or is not an object.'

const refused = (status: 400 | 403, faults: Fault[]): StandaloneResult => ({
  ok: false,
  status,
  faults,
})

/**
 * `body` is an OpenRTB BidResponse, or its `seatbid`, with members of the BidRequest in the body or in `bidrequest`. Unknown
 * members are ignored, except misplaced floors, which are faults. 403: OPD is not enabled. 400: the faults, each with its
 * JSON pointer. Never throws.
 *
 * @param body an OpenRTB BidResponse, or its `seatbid`
 * @param opd the settings of the integration; null or `invalid` is refused as disabled
 * @param rates to the base currency; null: there are none, and only bids in it are priced
 * @param base the base currency, three letters
 * @param price prices one eligible bid
 */
export function standalone(
  body: Buffer,
  opd: Integration['opd'],
  rates: Rates | null,
  base: string,
  price: PriceBid,
): StandaloneResult {
  if (opd === null || opd === 'invalid' || opd.enabled === false) return refused(403, [])
  const scan = createScanner(body)
  const call = scan === null ? null : readCall(scan)
  if (scan === null || call === null) return refused(400, [{ pointer: '', detail: unreadable }])
  const faults = faultsOf(scan.text, call, opd)
  if (faults.length > 0) return refused(400, faults)
  const rules = { opd, rates, base, withoutImp: !call.impSent }
  const withoutImp = !call.impSent && call.bids.length > 0
  return { ok: true, entries: priceBids(call, rules, price), withoutImp }
}

function* priceBids(
  call: StandaloneCall,
  rules: Rules,
  price: PriceBid,
): Generator<StandaloneEntry> {
  for (const bid of call.bids) {
    const eligible = eligibleBidOf(bid, call, rules)
    const { priceText, context } = price(eligible, 'standalone')
    yield { id: eligible.bidId, price: priceText ?? eligible.priceText, context }
  }
}

function eligibleBidOf(bid: StandaloneBid, call: StandaloneCall, rules: Rules): EligibleBid {
  const eligibility = checkEligibility(bid, call, rules)
  const isFixed = 'reason' in eligibility
  const eligible = isFixed ? ineligibleBid(bid, call, rules) : eligibility.bid
  if (isFixed) eligible.fixed = eligibility.reason
  if (bid.dsp !== undefined) eligible.features = { ...eligible.features, dsp: bid.dsp }
  if (typeof bid.price_dsp === 'string') eligible.priceDspText = bid.price_dsp
  return eligible
}
