/**
 * The seam between the rewriter, which knows bytes and eligibility, and pricing, which knows fees,
 * arms, the learner and contexts. Values only.
 */

/** Why a bid was left as it is; counted per bid (CONTRACT 4.3). */
export type BidReason =
  | 'no_macro'
  | 'fixed_price'
  | 'unknown_deal'
  | 'audio'
  | 'currency'
  | 'no_price'
  | 'unknown_imp'
  | 'excluded'
  | 'ambiguous'
  | 'request'

/** Why a whole answer was left as it is; counted per answer (CONTRACT 4.3). */
export type AnswerReason =
  | 'no_macro'
  | 'disabled'
  | 'invalid_config'
  | 'malformed'
  | 'too_large'
  | 'encoding'
  | NotLookedAt
  | 'no_seatbid'

/** Why the head of an answer forbids a look into its body (CONTRACT 4.7). */
export type NotLookedAt = 'content_type' | 'charset' | 'no_transform'

/** What the model may know of a bid beside its price. Never a user, device id or address. */
export interface BidFeatures {
  publisher?: string
  domain?: string
  placement?: string
  country?: string
  device?: string
  format?: 'banner' | 'video' | 'native' | 'audio'
  size?: string
  dsp?: string
  seat?: string
  deal?: string
  /** BidRequest.at, or the deal's own. */
  auction?: 1 | 2
}

/** A bid that passed every rule of eligibility and now wants a price. Money is CPM in `currency`. */
export interface EligibleBid {
  bidId: string
  /** BidRequest.id: one auction is wholly holdout or not. */
  auction: string
  /** The price as the wire spelled it (any JSON number). */
  priceText: string
  price: number
  currency: string
  /** The largest floor that applies (CONTRACT 4.4), in `currency`; 0 when there is none. */
  floor: number
  /** The floor as decimal text when the wire's own text in the bid's currency decided it, so that no rounding can cross it. */
  floorText?: string
  /** Units of `currency` for one unit of the base; null when there is no rate (`no_rate`). */
  rate: number | null
  /** BidRequest.test was 1: expanded at factor 1, never money, never taught. */
  test: boolean
  /**
   * Standalone only: a bid that may not be changed for this reason but still wants a context. Priced at factor 1
   * (OUT and the price stay the bid's own), attributed, never taught. `floor` is 0 then where none can be told.
   */
  fixed?: BidReason
  /** Standalone only: the demand-side price as sent. */
  priceDspText?: string
  features: BidFeatures
}

/** What pricing answers. All texts are plain decimals and go on the wire as they are. */
export interface PricedBid {
  /** The new text of `price`, or null where the price stays as its own text. */
  priceText: string | null
  /** ${SVC_OPD_IN_BID_PRICE} */
  inText: string
  /** ${SVC_OPD_OUT_BID_PRICE} */
  outText: string
  /** ${SVC_OPD_CONTEXT} */
  context: string
  /** ${SVC_OPD_MODE} */
  mode: string
}

/** Prices one bid of the integration at hand. Never throws. */
export type PriceBid = (bid: EligibleBid) => PricedBid
