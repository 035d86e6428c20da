/** Whether OPD may touch a bid, and if not why: values, never exceptions (CONTRACT 4.3). */
import type { OpdConfig } from '../config.ts'
import type { BidReason, EligibleBid } from '../pricing/types.ts'
import { type Rates, rateOf } from '../shared/rates.ts'
import { exclusionsOf } from './exclusions.ts'
import { featuresOf } from './features.ts'
import { type BidFloor, floorOf } from './floors.ts'
import type { DealFacts, ImpFacts, RequestFacts } from './request.ts'

/** A bid as its response spells it, whichever door it came through. */
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
  /** The text of `price` where it is a JSON number. */
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

/** What a verdict rests on; a bid left alone may want it too (standalone). */
interface Grounds {
  imp: ImpFacts | null
  deal: DealFacts | null
}

type Verdict = { reason: BidReason } | { bid: EligibleBid }

/** ISO 4217: no currency. */
const noCurrency = 'XXX'

/** OpenRTB 2.6: 1 banner, 2 video, 3 audio, 4 native; any other is as if none were sent. */
export function mtypeOf(value: unknown): number | undefined {
  const mtype = typeof value === 'string' ? Number(value) : value
  return mtype === 1 || mtype === 2 || mtype === 3 || mtype === 4 ? mtype : undefined
}

/** A deal id of the bid; null: none (absent, null, empty); undefined: no text, so no deal of any imp. */
function dealIdOf(value: unknown): string | null | undefined {
  if (value === undefined || value === null || value === '') return null
  return typeof value === 'string' ? value : undefined
}

/** `at` 3 of the deal, or of the request where the deal has none: its floor is the agreed price. */
const isFixed = (deal: DealFacts, request: RequestFacts) =>
  deal.guaranteed || (deal.at ?? request.at) === 3

/** The imp of the bid, or why there is none to be sure of. */
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

/** The bid with its floor and features, or the first reason to leave it alone. */
export function judge(view: BidView, request: RequestFacts | null, rules: Rules): Verdict {
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
  if (exclusionsOf(rules.opd).meet(view, request, deal !== null)) return { reason: 'excluded' }
  const currency = view.currency ?? noCurrency
  const floor = floorOf({ currency, dur: view.dur, mtype }, imp, deal, rules.rates, rules.base)
  if (floor === null) return { reason: 'currency' }
  return { bid: eligible(view, request, { imp, deal }, price, floor, rules) }
}

/** mtype 3, or no mtype and the imp offers audio. */
export function isAudio(mtype: number | undefined, imp: ImpFacts | null): boolean {
  return mtype === undefined ? imp !== null && imp.audio !== null : mtype === 3
}

/** The bid as pricing wants it. */
export function eligible(
  view: BidView,
  request: RequestFacts,
  { imp, deal }: Grounds,
  price: number,
  floor: BidFloor,
  { rates, base }: Rules,
): EligibleBid {
  const currency = view.currency ?? noCurrency
  const bid: EligibleBid = {
    bidId: view.bidId,
    // Without an id each bid is an auction of its own.
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
