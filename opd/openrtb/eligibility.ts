/** Decides whether OPD may price a bid, and if not, why. The reason is a value, never an exception (CONTRACT 4.3). */
import type { OpdConfig } from '../config.ts'
import { type Rates, rateOf } from '../shared/rates.ts'
import type { BidFeatures, BidReason, EligibleBid } from '../shared/reasons.ts'
import { type Bid, featuresOf } from './bid.ts'
import type { DealFacts, DurationFloors, Floor, ImpFacts, RequestFacts } from './facts.ts'

/** The floor of one bid, in the bid's currency (CONTRACT 4.4). */

interface BidFloor {
  amount: number
  /** The floor as it was sent, if it is in the bid's currency. */
  text?: string
}

/** The floor in another currency; null: a rate is missing. */
function converted(floor: Floor, to: string, rates: Rates | null, base: string): number | null {
  if (floor.currency === to) return floor.amount
  if (floor.currency === null) return null
  const [source, target] = [rateOf(floor.currency, rates, base), rateOf(to, rates, base)]
  return source === null || target === null ? null : (floor.amount / source) * target
}

/** The largest duration floor that applies to a creative of `dur` seconds; 0 without a duration. */
function durationFloor({ perSecond, ranges }: DurationFloors, dur: number): number {
  // 15 digits, so that 0.1 * 3 is 0.3 and not 0.30000000000000004.
  let largest = Number((perSecond * dur).toPrecision(15))
  for (const { from, to, amount } of ranges)
    if (dur >= from && dur <= to && amount > largest) largest = amount
  return largest
}

/** The duration floors for the type of the bid; without a type, those of video and audio. */
function timedOf(mtype: number | undefined, { video, audio }: ImpFacts) {
  if (mtype === 2) return [video]
  if (mtype === 3) return [audio]
  return [video, audio]
}

function durationFloors(
  dur: number,
  mtype: number | undefined,
  imp: ImpFacts,
  deal: DealFacts | null,
) {
  const floors: Floor[] = []
  const add = (durations: DurationFloors | null, { currency }: Floor) => {
    if (durations === null || (durations.perSecond === 0 && durations.ranges.length === 0)) return
    floors.push({ amount: durationFloor(durations, dur), text: '', currency })
  }
  for (const timed of timedOf(mtype, imp)) add(timed, imp.floor)
  if (deal !== null) add(deal, deal.floor)
  return floors
}

/** null: a floor above 0 is in a currency that cannot be converted. */
function floorOf(
  currency: string,
  dur: unknown,
  mtype: number | undefined,
  imp: ImpFacts,
  deal: DealFacts | null,
  { rates, base }: { rates: Rates | null; base: string },
): BidFloor | null {
  const floors = deal === null ? [imp.floor] : [imp.floor, deal.floor]
  const seconds = typeof dur === 'string' ? Number(dur) : dur
  if (typeof seconds === 'number' && seconds > 0)
    floors.push(...durationFloors(seconds, mtype, imp, deal))
  let largest: BidFloor = { amount: 0 }
  for (const floor of floors) {
    if (floor.amount === 0) continue
    const amount = converted(floor, currency, rates, base)
    if (amount === null) return null
    if (amount <= largest.amount) continue
    largest =
      floor.currency === currency && floor.text !== '' ? { amount, text: floor.text } : { amount }
  }
  if (largest.amount > Number.MAX_VALUE) return { amount: Number.MAX_VALUE }
  return largest
}

/** Bids that the operator excluded from OPD: `exclude` and `deals: false` (CONTRACT 2). */

type Excludes = (bid: Bid, request: RequestFacts, isDeal: boolean) => boolean

const lower = (names: readonly string[]) => new Set(names.map((name) => name.toLowerCase()))

/** Domains are compared case-insensitively. */
function exclusions({ exclude, deals: permitsDeals }: OpdConfig): Excludes {
  if (permitsDeals && Object.values(exclude).every((list) => list.length === 0)) return () => false
  const deals = new Set(exclude.deals)
  const seats = new Set(exclude.seats)
  const publishers = new Set(exclude.publishers)
  const apps = new Set(exclude.apps)
  const domains = lower(exclude.domains)
  const adomains = lower(exclude.adomains)

  const hasDomain = ({ domains: names, host }: RequestFacts) =>
    names.some((name) => domains.has(name)) || (host !== undefined && domains.has(host))

  return ({ dealid, seatName, adomain, moreDomains }, request, isDeal) =>
    (!permitsDeals && isDeal) ||
    (typeof dealid === 'string' && deals.has(dealid)) ||
    (seatName !== null && seats.has(seatName)) ||
    (request.publisher !== undefined && publishers.has(request.publisher)) ||
    (domains.size > 0 && hasDomain(request)) ||
    request.apps.some((name) => apps.has(name)) ||
    (adomain?.some((name) => adomains.has(name.toLowerCase())) ?? false) ||
    (moreDomains && adomains.size > 0)
}

const made = new WeakMap<OpdConfig, Excludes>()

/** Made once for each configuration, not for each bid. */
function exclusionsOf(opd: OpdConfig): Excludes {
  let excludes = made.get(opd)
  if (excludes === undefined) {
    excludes = exclusions(opd)
    made.set(opd, excludes)
  }
  return excludes
}

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
  deal.guaranteed || (deal.auctionType ?? request.auctionType) === 3

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

/**
 * The bid with its floor and features, or the first reason to leave it unmodified.
 *
 * @param bid as read from the response
 * @param request null: it cannot be read, so no bid is eligible
 * @param rules of the integration and of the response
 */
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

/**
 * A standalone bid that is not eligible: its floor is 0, and it still gets a context.
 *
 * @param bid with a price that is valid
 * @param request what the call says of the auction; its imps may lack that of the bid
 * @param rules the settings of the integration
 */
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
