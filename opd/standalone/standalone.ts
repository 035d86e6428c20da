/**
 * The standalone price handler (CONTRACT 7): the same judge and the same pricing as on the path of the answer, for
 * bids that do not pass here. Every bid gets an entry with a context, in the order in which it came.
 */
import type { Integration } from '../config.ts'
import type { Fault, StandaloneAnswer, StandaloneEntry } from '../engine/types.ts'
import { scannerOf } from '../json/scanner.ts'
import {
  type BidView,
  eligible,
  isAudio,
  judge,
  mtypeOf,
  type Rules,
} from '../openrtb/eligibility.ts'
import { exclusionsOf } from '../openrtb/exclusions.ts'
import { type RequestFacts, requestInCall } from '../openrtb/request.ts'
import type { BidReason, EligibleBid, PriceBid } from '../pricing/types.ts'
import type { Rates } from '../shared/rates.ts'
import { faultsOf } from './faults.ts'
import { type Offer, readOffer, type SentBid } from './offer.ts'

const notRead =
  'The body is not JSON in UTF-8 (RFC 8259), is nested deeper than 1,000, or is no object.'

const refused = (status: 400 | 403, faults: Fault[]): StandaloneAnswer => ({
  ok: false,
  status,
  faults,
})

/**
 * `body` is an OpenRTB BidResponse, or just its `seatbid`, with what it needs of the BidRequest beside it or in one
 * `bidrequest`. Members that are not known are extensions and ignored, save floors where none is read. 403: OPD is
 * not enabled; 400: every fault with its JSON pointer. Never throws.
 */
export function standalone(
  body: Buffer,
  { opd }: Integration,
  rates: Rates | null,
  base: string,
  price: PriceBid,
): StandaloneAnswer {
  if (opd === null || opd === 'invalid' || opd.enabled === false) return refused(403, [])
  const scan = scannerOf(body)
  const offer = scan === null ? null : readOffer(scan)
  const request = scan === null || offer === null ? null : requestInCall(scan)
  if (scan === null || offer === null || request === null)
    return refused(400, [{ pointer: '', detail: notRead }])
  const faults = faultsOf(scan.text, offer, request, opd)
  if (faults.length > 0) return refused(400, faults)
  // The body's own id is BidResponse.id; it counts where the request has none.
  const id = offer.bidrequest?.id
  if (typeof id === 'string' && id !== '') request.id = id
  const rules = { opd, rates, base }
  const withoutImp = !request.impSent && offer.bids.length > 0
  return { ok: true, entries: priced(offer, request, rules, price), withoutImp }
}

function* priced(
  offer: Offer,
  request: RequestFacts,
  rules: Rules,
  price: PriceBid,
): Generator<StandaloneEntry> {
  for (const bid of offer.bids) {
    const wanted = wantedOf(bid, viewOf(bid, offer.currency), request, rules)
    const { priceText, context } = price(wanted)
    yield { id: wanted.bidId, price: priceText ?? wanted.priceText, context }
  }
}

function viewOf(bid: SentBid, currency: string | null): BidView {
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

/** Without `imp` the floor is 0, no audio is known to be offered, and every deal is unknown. */
function judgeAlone(view: BidView, request: RequestFacts, { opd }: Rules): BidReason | null {
  if (request.ambiguous) return 'ambiguous'
  if (!(Number(view.priceText) > 0)) return 'no_price'
  if (view.dealid !== undefined && view.dealid !== null && view.dealid !== '') return 'unknown_deal'
  if (!opd.audio && isAudio(mtypeOf(view.mtype), null)) return 'audio'
  return exclusionsOf(opd).meet(view, request, false) ? 'excluded' : null
}

function wantedOf(bid: SentBid, view: BidView, request: RequestFacts, rules: Rules): EligibleBid {
  let wanted: EligibleBid | null = null
  let reason: BidReason | null = null
  if (request.impSent) {
    const verdict = judge(view, request, rules)
    if ('bid' in verdict) wanted = verdict.bid
    else reason = verdict.reason
  } else reason = judgeAlone(view, request, rules)
  wanted ??= unjudged(view, request, rules)
  if (reason !== null) wanted.fixed = reason
  if (bid.dsp !== undefined) wanted.features.dsp = bid.dsp
  if (bid.priceDsp !== null) wanted.priceDspText = bid.priceDsp
  return wanted
}

/** A bid whose floor is 0 or cannot be told. */
function unjudged(view: BidView, request: RequestFacts, rules: Rules): EligibleBid {
  const imp = (typeof view.impid === 'string' ? request.imps.get(view.impid) : undefined) ?? null
  const grounds = { imp, deal: null }
  return eligible(view, request, grounds, Number(view.priceText), { amount: 0 }, rules)
}
