/**
 * The standalone price handler (CONTRACT 7): the eligibility and the pricing of bid responses, for bids that do not pass the
 * proxy. Every bid gets an entry with a context, in the order of the call.
 */
import type { Integration } from '../config.ts'
import type { Fault, StandaloneEntry, StandaloneResult } from '../engine/types.ts'
import { createScanner } from '../json/scanner.ts'
import {
  type BidView,
  checkEligibility,
  ineligibleBid,
  isAudio,
  mtypeOf,
  type Rules,
} from '../openrtb/eligibility.ts'
import { exclusionsOf } from '../openrtb/exclusions.ts'
import type { RequestFacts } from '../openrtb/facts.ts'
import { readStandaloneRequest } from '../openrtb/request.ts'
import type { BidReason, EligibleBid, PriceBid } from '../pricing/types.ts'
import type { Rates } from '../shared/rates.ts'
import { faultsOf } from './faults.ts'
import { readCall, type StandaloneBid, type StandaloneCall } from './offer.ts'

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
 */
export function standalone(
  body: Buffer,
  { opd }: Integration,
  rates: Rates | null,
  base: string,
  price: PriceBid,
): StandaloneResult {
  if (opd === null || opd === 'invalid' || opd.enabled === false) return refused(403, [])
  const scan = createScanner(body)
  const call = scan === null ? null : readCall(scan)
  const request = scan === null || call === null ? null : readStandaloneRequest(scan)
  if (scan === null || call === null || request === null)
    return refused(400, [{ pointer: '', detail: unreadable }])
  const faults = faultsOf(scan.text, call, request, opd)
  if (faults.length > 0) return refused(400, faults)
  // `id` of the body is BidResponse.id, which equals BidRequest.id. An id in `bidrequest` takes precedence.
  const id = call.bidrequest?.id
  if (typeof id === 'string' && id !== '') request.id = id
  const rules = { opd, rates, base }
  const withoutImp = !request.impSent && call.bids.length > 0
  return { ok: true, entries: priceBids(call, request, rules, price), withoutImp }
}

function* priceBids(
  call: StandaloneCall,
  request: RequestFacts,
  rules: Rules,
  price: PriceBid,
): Generator<StandaloneEntry> {
  for (const bid of call.bids) {
    const eligible = eligibleBidOf(bid, viewOf(bid, call.currency), request, rules)
    const { priceText, context } = price(eligible)
    yield { id: eligible.bidId, price: priceText ?? eligible.priceText, context }
  }
}

function viewOf(bid: StandaloneBid, currency: string | null): BidView {
  return {
    bidId: bid.id as string,
    impid: bid.impid,
    dealid: bid.dealid,
    mtype: bid.mtype,
    dur: bid.dur,
    width: bid.w,
    height: bid.h,
    adomain: bid.adomain,
    seat: typeof bid.seat.name === 'string' ? bid.seat.name : null,
    priceText: bid.inbound,
    currency,
    ambiguous: false,
  }
}

/** Eligibility without `imp`: the floor is 0, no imp offers audio, and every deal is unknown. */
function checkWithoutImp(view: BidView, request: RequestFacts, { opd }: Rules): BidReason | null {
  if (request.ambiguous) return 'ambiguous'
  if (!(Number(view.priceText) > 0)) return 'no_price'
  if (view.dealid !== undefined && view.dealid !== null && view.dealid !== '') return 'unknown_deal'
  if (!opd.audio && isAudio(mtypeOf(view.mtype), null)) return 'audio'
  return exclusionsOf(opd).matches(view, request, false) ? 'excluded' : null
}

function eligibleBidOf(
  bid: StandaloneBid,
  view: BidView,
  request: RequestFacts,
  rules: Rules,
): EligibleBid {
  let eligible: EligibleBid | null = null
  let reason: BidReason | null = null
  if (request.impSent) {
    const eligibility = checkEligibility(view, request, rules)
    if ('bid' in eligibility) eligible = eligibility.bid
    else reason = eligibility.reason
  } else reason = checkWithoutImp(view, request, rules)
  eligible ??= ineligibleBid(view, request, rules)
  if (reason !== null) eligible.fixed = reason
  if (bid.dsp !== undefined) eligible.features = { ...eligible.features, dsp: bid.dsp }
  if (bid.priceDsp !== null) eligible.priceDspText = bid.priceDsp
  return eligible
}
