/** Whether OPD may price a bid, and if not, why. The result is a value, never an exception (CONTRACT 4.3). */
import type { OpdConfig } from '../config.ts'
import type { BidReason, EligibleBid } from '../pricing/types.ts'
import { type Rates, rateOf } from '../shared/rates.ts'
import { exclusionsOf } from './exclusions.ts'
import type { DealFacts, ImpFacts, RequestFacts } from './facts.ts'
import { featuresOf } from './features.ts'
import { type BidFloor, floorOf } from './floors.ts'

/** The fields of a bid that eligibility depends on, from a bid response or a standalone call. */
export interface BidView {
  bidId: string
  impid: unknown
  dealid: unknown
  mtype: unknown
  dur: unknown
  width: unknown
  height: unknown
  adomain: readonly string[] | null
  seat: string | null
  /** The text of `price`; null: not a JSON number. */
  priceText: string | null
  /** null: of a wrong type. */
  currency: string | null
  ambiguous: boolean
}

export interface Rules {
  opd: OpdConfig
  rates: Rates | null
  base: string
}

/** The imp and the deal that a bid refers to. */
interface MatchedImp {
  imp: ImpFacts | null
  deal: DealFacts | null
}

type Eligibility = { reason: BidReason } | { bid: EligibleBid }

/** "No currency" in ISO 4217. */
const noCurrency = 'XXX'

/** OpenRTB 2.6: 1 banner, 2 video, 3 audio, 4 native. Any other value counts as absent. */
export function mtypeOf(value: unknown): number | undefined {
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
  return imp.ambiguous ? 'ambiguous' : imp
}

function dealOf(dealid: unknown, imp: ImpFacts, request: RequestFacts) {
  const id = dealIdOf(dealid)
  if (id === null) return null
  const deal = id === undefined ? undefined : imp.deals.get(id)
  if (deal === undefined) return 'unknown_deal'
  if (deal.ambiguous) return 'ambiguous'
  return isFixed(deal, request) ? 'fixed_price' : deal
}

/** The bid with its floor and features, or the first reason to leave it unmodified. */
export function checkEligibility(
  view: BidView,
  request: RequestFacts | null,
  rules: Rules,
): Eligibility {
  if (view.ambiguous) return { reason: 'ambiguous' }
  const price = view.priceText === null ? Number.NaN : Number(view.priceText)
  if (!(price > 0 && Number.isFinite(price))) return { reason: 'no_price' }
  if (request === null) return { reason: 'request' }
  if (request.ambiguous) return { reason: 'ambiguous' }
  const imp = impOf(view.impid, request)
  if (typeof imp === 'string') return { reason: imp }
  const deal = dealOf(view.dealid, imp, request)
  if (typeof deal === 'string') return { reason: deal }
  const mtype = mtypeOf(view.mtype)
  if (!rules.opd.audio && isAudio(mtype, imp)) return { reason: 'audio' }
  if (exclusionsOf(rules.opd).matches(view, request, deal !== null)) return { reason: 'excluded' }
  const currency = view.currency ?? noCurrency
  const floor = floorOf({ currency, dur: view.dur, mtype }, imp, deal, rules.rates, rules.base)
  if (floor === null) return { reason: 'currency' }
  return { bid: toEligibleBid(view, request, { imp, deal }, price, floor, rules) }
}

/** mtype is 3, or absent and the imp offers audio. */
export function isAudio(mtype: number | undefined, imp: ImpFacts | null): boolean {
  return mtype === undefined ? imp !== null && imp.audio !== null : mtype === 3
}

/** The input of pricing. */
export function toEligibleBid(
  view: BidView,
  request: RequestFacts,
  { imp, deal }: MatchedImp,
  price: number,
  floor: BidFloor,
  { rates, base }: Rules,
): EligibleBid {
  const currency = view.currency ?? noCurrency
  const bid: EligibleBid = {
    bidId: view.bidId,
    // Without a request id, each bid counts as an auction of its own.
    auction: request.id === '' ? view.bidId : request.id,
    priceText: view.priceText!,
    price,
    currency,
    floor: floor.amount,
    rate: rateOf(currency, rates, base),
    test: request.test,
    features: featuresOf(view, mtypeOf(view.mtype), request, imp, deal),
  }
  if (floor.text !== undefined) bid.floorText = floor.text
  return bid
}
