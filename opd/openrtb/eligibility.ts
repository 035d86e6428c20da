/** Decides whether OPD may price a bid, and if not, why. The reason is a value, never an exception (CONTRACT 4.3). */
import type { OpdConfig } from '../config.ts'
import { type Rates, rateOf } from '../shared/rates.ts'
import type { BidFeatures, BidReason, EligibleBid } from '../shared/reasons.ts'
import type { Bid } from './bid.ts'
import { exclusionsOf } from './exclusions.ts'
import type { DealFacts, ImpFacts, RequestFacts } from './facts.ts'
import { featuresOf } from './features.ts'
import { type BidFloor, floorOf } from './floors.ts'

/** The rules of one response or standalone call. */
export interface Rules {
  opd: OpdConfig
  rates: Rates | null
  base: string
  /** A standalone call without imp: every floor is 0, no imp offers audio, and every deal is unknown. */
  withoutImp?: boolean
  /** The check of the bid before, for bids with the same terms. */
  last?: LastCheck
}

/** The result that bids share which refer to the same imp and deal, and have the same seat, type, size and duration. */
interface LastCheck {
  bid: Bid
  request: RequestFacts
  terms: BidReason | { deal: DealFacts | null; floor: BidFloor | null; features: BidFeatures }
}

type Eligibility = { reason: BidReason } | { bid: EligibleBid }

/** "No currency" in ISO 4217. */
const noCurrency = 'XXX'
const noFloor: BidFloor = { amount: 0 }

/** OpenRTB 2.6: 1 banner, 2 video, 3 audio, 4 native. Any other value counts as absent. */
function mtypeOf(value: unknown): number | undefined {
  const mtype = typeof value === 'string' ? Number(value) : value
  return mtype === 1 || mtype === 2 || mtype === 3 || mtype === 4 ? mtype : undefined
}

/** null: no deal (absent, null or empty); undefined: not a string, so it matches no deal. */
function dealIdOf(value: unknown): string | null | undefined {
  if (value === undefined || value === null || value === '') return null
  return typeof value === 'string' ? value : undefined
}

/** A guaranteed deal, or `at` 3 in the deal or else in the request: the floor is the agreed price. */
const isFixed = (deal: DealFacts, request: RequestFacts) =>
  deal.guaranteed || (deal.at ?? request.at) === 3

/** The imp of the bid, or the reason why it is unknown. */
function impOf(impid: unknown, { imps }: RequestFacts): ImpFacts | BidReason {
  const imp = typeof impid === 'string' ? imps.get(impid) : undefined
  if (imp === undefined) return 'unknown_imp'
  const { ambiguous, video, audio } = imp
  return ambiguous || video?.ambiguous || audio?.ambiguous ? 'ambiguous' : imp
}

function dealOf(dealid: unknown, imp: ImpFacts | null, request: RequestFacts) {
  const id = dealIdOf(dealid)
  if (id === null) return null
  const deal = id === undefined ? undefined : imp?.deals?.get(id)
  if (deal === undefined) return 'unknown_deal'
  if (deal.ambiguous) return 'ambiguous'
  return isFixed(deal, request) ? 'fixed_price' : deal
}

/** The bid with its floor and features, or the first reason to leave it unmodified. */
export function checkEligibility(
  bid: Bid,
  request: RequestFacts | null,
  rules: Rules,
): Eligibility {
  if (bid.ambiguous) return { reason: 'ambiguous' }
  const price = bid.priceText === null ? Number.NaN : Number(bid.priceText)
  if (!(price > 0 && Number.isFinite(price))) return { reason: 'no_price' }
  if (request === null) return { reason: 'request' }
  if (request.ambiguous) return { reason: 'ambiguous' }
  let { last } = rules
  if (last === undefined || last.request !== request || !hasEqualTerms(last.bid, bid)) {
    last = { bid, request, terms: termsOf(bid, request, rules) }
    rules.last = last
  }
  const { terms } = last
  if (typeof terms === 'string') return { reason: terms }
  const { deal, floor, features } = terms
  if (exclusionsOf(rules.opd)(bid, request, deal !== null)) return { reason: 'excluded' }
  if (floor === null) return { reason: 'currency' }
  return { bid: eligibleBid(bid, request, price, floor, features, rules) }
}

const hasEqualTerms = (one: Bid, other: Bid) =>
  one.impid === other.impid &&
  one.dealid === other.dealid &&
  one.mtype === other.mtype &&
  one.dur === other.dur &&
  one.width === other.width &&
  one.height === other.height &&
  one.seatName === other.seatName &&
  one.currency === other.currency

function termsOf(bid: Bid, request: RequestFacts, rules: Rules): LastCheck['terms'] {
  const imp = rules.withoutImp ? null : impOf(bid.impid, request)
  if (typeof imp === 'string') return imp
  const deal = dealOf(bid.dealid, imp, request)
  if (typeof deal === 'string') return deal
  const mtype = mtypeOf(bid.mtype)
  if (!rules.opd.audio && isAudio(mtype, imp)) return 'audio'
  const floor =
    imp === null ? noFloor : floorOf(bid.currency ?? noCurrency, bid.dur, mtype, imp, deal, rules)
  const features = featuresOf(bid, mtype, request, imp, deal)
  return { deal, floor, features }
}

/** mtype is 3, or absent and the imp offers audio. */
const isAudio = (mtype: number | undefined, imp: ImpFacts | null) =>
  mtype === undefined ? imp !== null && imp.audio !== null : mtype === 3

/** A standalone bid that is not eligible: its floor is 0, and it still gets a context. */
export function ineligibleBid(bid: Bid, request: RequestFacts, rules: Rules): EligibleBid {
  const imp = (typeof bid.impid === 'string' ? request.imps.get(bid.impid) : undefined) ?? null
  const features = featuresOf(bid, mtypeOf(bid.mtype), request, imp, null)
  return eligibleBid(bid, request, Number(bid.priceText), noFloor, features, rules)
}

/** The input of pricing. */
function eligibleBid(
  bid: Bid,
  request: RequestFacts,
  price: number,
  floor: BidFloor,
  features: BidFeatures,
  { rates, base }: Rules,
): EligibleBid {
  const currency = bid.currency ?? noCurrency
  return {
    bidId: bid.bidId,
    // Without a request id, each bid counts as an auction of its own.
    auction: request.id === '' ? bid.bidId : request.id,
    priceText: bid.priceText!,
    price,
    currency,
    floor: floor.amount,
    floorText: floor.text,
    rate: rateOf(currency, rates, base),
    test: request.test,
    features,
  }
}
