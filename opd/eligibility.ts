/** Whether OPD may touch a bid, and if not why: numbered reasons, values, never exceptions (CONTRACT 4.3). */
import type { OpdConfig, Rates } from './config.ts'
import { type BidFloor, floorOf, rateOf } from './floors.ts'
import type { BidFeatures, BidReason, EligibleBid } from './priced.ts'
import type { DealFacts, ImpFacts, RequestFacts } from './request.ts'

/** A bid as its response spells it, whichever door it came through. */
export interface BidView {
  id: unknown
  impid: unknown
  dealid: unknown
  mtype: unknown
  dur: unknown
  width: unknown
  height: unknown
  adomain: readonly string[]
  seat: string | null
  /** The text of `price` where it is a JSON number. */
  priceText: string | null
  ambiguous: boolean
}

export interface Rules {
  opd: OpdConfig
  rates: Rates | null
  base: string
}

export type Verdict = { reason: BidReason } | { bid: EligibleBid }

const formats: Readonly<Record<number, BidFeatures['format']>> = {
  1: 'banner',
  2: 'video',
  3: 'audio',
  4: 'native',
}

function formatOf(mtype: unknown, imp: ImpFacts): BidFeatures['format'] {
  if (typeof mtype === 'number' && formats[mtype] !== undefined) return formats[mtype]
  if (imp.banner) return 'banner'
  if (imp.video !== null) return 'video'
  if (imp.native) return 'native'
  return imp.audio === null ? undefined : 'audio'
}

const meets = (list: readonly string[], value: string | null | undefined) =>
  value != null && list.includes(value)

function excluded(view: BidView, request: RequestFacts, deal: string | null, opd: OpdConfig) {
  const { exclude } = opd
  return (
    (!opd.deals && deal !== null) ||
    meets(exclude.deals, deal) ||
    meets(exclude.seats, view.seat) ||
    meets(exclude.publishers, request.publisher) ||
    meets(exclude.domains, request.domain) ||
    request.apps.some((app) => exclude.apps.includes(app)) ||
    view.adomain.some((domain) => exclude.adomains.includes(domain))
  )
}

/** A deal id of the bid: a text; null: none (absent, null, empty); undefined: something else, no deal of any imp. */
function dealIdOf(value: unknown): string | null | undefined {
  if (value === undefined || value === null || value === '') return null
  return typeof value === 'string' ? value : undefined
}

function isAudio(mtype: unknown, imp: ImpFacts): boolean {
  return typeof mtype === 'number' ? mtype === 3 : imp.audio !== null
}

function featuresOf(view: BidView, request: RequestFacts, imp: ImpFacts, deal: DealFacts | null) {
  const size =
    typeof view.width === 'number' && typeof view.height === 'number'
      ? `${view.width}x${view.height}`
      : imp.size
  const features: BidFeatures = {}
  if (request.publisher !== undefined) features.publisher = request.publisher
  if (request.domain !== undefined) features.domain = request.domain
  if (imp.placement !== undefined) features.placement = imp.placement
  if (request.country !== undefined) features.country = request.country
  if (request.device !== undefined) features.device = request.device
  const format = formatOf(view.mtype, imp)
  if (format !== undefined) features.format = format
  if (size !== undefined) features.size = size
  if (view.seat !== null) features.seat = view.seat
  if (deal !== null) features.deal = deal.id
  const auction = deal?.auction ?? request.auction
  if (auction !== undefined) features.auction = auction
  return features
}

/** The bid with its floor and features, or the first reason to leave it alone. */
export function judge(
  view: BidView,
  request: RequestFacts | null,
  currency: string,
  rules: Rules,
): Verdict {
  if (view.ambiguous) return { reason: 'ambiguous' }
  if (request === null) return { reason: 'request' }
  if (request.ambiguous) return { reason: 'ambiguous' }
  const imp = typeof view.impid === 'string' ? request.imps.get(view.impid) : undefined
  if (imp === undefined) return { reason: 'unknown_imp' }
  if (imp.ambiguous) return { reason: 'ambiguous' }
  const price = view.priceText === null ? Number.NaN : Number(view.priceText)
  if (!(price > 0 && Number.isFinite(price))) return { reason: 'no_price' }
  const dealId = dealIdOf(view.dealid)
  const deal = imp.deals.find((each) => each.id === dealId) ?? null
  if (dealId !== null && deal === null) return { reason: 'unknown_deal' }
  if (deal?.fixed) return { reason: 'fixed_price' }
  if (!rules.opd.audio && isAudio(view.mtype, imp)) return { reason: 'audio' }
  if (excluded(view, request, deal?.id ?? null, rules.opd)) return { reason: 'excluded' }
  const terms = { currency, dur: view.dur, mtype: view.mtype }
  const floor = floorOf(terms, imp, deal, rules.rates, rules.base)
  if (floor === null) return { reason: 'currency' }
  return {
    bid: eligible(
      view,
      request,
      price,
      currency,
      floor,
      rules,
      featuresOf(view, request, imp, deal),
    ),
  }
}

function eligible(
  view: BidView,
  request: RequestFacts,
  price: number,
  currency: string,
  floor: BidFloor,
  rules: Rules,
  features: BidFeatures,
): EligibleBid {
  return {
    bidId: typeof view.id === 'string' ? view.id : '',
    auction: request.id,
    priceText: view.priceText!,
    price,
    currency,
    floor: floor.amount,
    ...(floor.text === undefined ? {} : { floorText: floor.text }),
    rate: rateOf(currency, rules.rates, rules.base),
    test: request.test,
    features,
  }
}
