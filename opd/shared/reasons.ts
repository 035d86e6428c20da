/** The interface between the rewriter (bytes, eligibility) and pricing (fees, arms, learner, contexts). */

import type { Via } from './arms.ts'

/** Why a bid was left unmodified; counted by bid (CONTRACT 4.3). */
export const bidReasons = [
  'no_macro',
  'fixed_price',
  'unknown_deal',
  'audio',
  'currency',
  'no_price',
  'unknown_imp',
  'excluded',
  'ambiguous',
  'request',
  'has_macro',
] as const
export type BidReason = (typeof bidReasons)[number]

/** Why the response head forbids parsing the body (CONTRACT 4.7). */
const headReasons = ['content_type', 'charset', 'no_transform'] as const
export type HeadReason = (typeof headReasons)[number]

/** Why a whole bid response was left unmodified; counted by response (CONTRACT 4.3). */
export const responseReasons = [
  'no_macro',
  'disabled',
  'invalid_config',
  'malformed',
  'too_large',
  'encoding',
  ...headReasons,
  'no_seatbid',
] as const
export type ResponseReason = (typeof responseReasons)[number]

/** Features of a bid for the model, without its price. Never a user, device id or address. */
export interface BidFeatures {
  publisher?: string | undefined
  domain?: string | undefined
  placement?: string | undefined
  country?: string | undefined
  device?: string | undefined
  format?: 'banner' | 'video' | 'native' | 'audio' | undefined
  size?: string | undefined
  dsp?: string | undefined
  seat?: string | undefined
  deal?: string | undefined
  /** `at` of the deal, else of the bid request. At 2 a lower bid loses wins and saves little. */
  auction?: 1 | 2 | undefined
}

/** A bid that passed every eligibility rule. Money is CPM in `currency`. */
export interface EligibleBid {
  bidId: string
  /** BidRequest.id. All bids of an auction are in the holdout, or none. */
  auction: string
  /** The price as it was sent (any JSON number). */
  priceText: string
  price: number
  currency: string
  /** The largest floor that applies (CONTRACT 4.4), in `currency`; 0 when there is none. */
  floor: number
  /** The floor as it was sent, if it is in the bid's currency: it avoids rounding below the floor. */
  floorText?: string | undefined
  /** Units of `currency` for one unit of the base; null when there is no rate (`no_rate`). */
  rate: number | null
  /** BidRequest.test is 1: factor 1, excluded from sums of money, not used for training. */
  test: boolean
  /**
   * Standalone only: the reason why the bid must not be changed. It gets a context and factor 1, is attributed, and is not
   * used for training. `floor` is 0 if it is unknown.
   */
  fixed?: BidReason
  /** Standalone only: `price_dsp` as it was sent. */
  priceDspText?: string
  features: BidFeatures
}

/** The result of pricing. Prices are plain decimal texts. */
export interface PricedBid {
  /** The new text of `price`; null: the price does not change. */
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

/** Prices one bid of the integration at hand, in a bid response unless `via` says otherwise. Never throws. */
export type PriceBid = (bid: EligibleBid, via?: Via) => PricedBid
