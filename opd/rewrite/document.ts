/** What the rewriter needs of a bid response, in JSON or in Protocol Buffers, and of the bid request that belongs to it. */
import type { Bid } from '../openrtb/bid.ts'
import type { RequestFacts } from '../openrtb/facts.ts'
import type { Span } from '../openrtb/response.ts'
import type { PricedBid } from '../shared/reasons.ts'
import type { Splices } from './splice.ts'

/** `more`: the next call reads on. A promise: the next call waits for it. */
export type ReadState = 'more' | 'complete' | 'malformed' | 'too_large' | Promise<void>

/** One seat, and its bids in the order of the body. */
export interface SeatBids {
  readonly start: number
  readonly bids: readonly Bid[]
}

export interface Removal<Seat> {
  kept: readonly Seat[]
  /** Number of bids that were removed. */
  removed: number
  /** The bytes that are removed, in ascending order. */
  ranges: readonly Span[]
}

export interface ResponseDocument<Seat extends SeatBids = SeatBids> {
  /** Whether the bytes may contain the context macro. `more`: the next call searches on. */
  mayHaveMacro(): boolean | 'more'
  /** Reads the next slice. `prices`: whether bids are to be priced. What follows is right once it is `complete`. */
  read(prices: boolean): ReadState
  /** Whether the response has a list of seats. */
  readonly hasSeats: boolean
  readonly seats: readonly Seat[]
  /** The body, a character for each byte. */
  readonly text: string
  /** Removes inactive seats with their bids. null: it is not known which seat a bid belongs to. */
  removeSeats(inactive: ReadonlySet<string>): Removal<Seat> | null
  /** Whether adm, nurl or burl of a bid contains `svc_opd=${SVC_OPD_CONTEXT}`. `more`: the next call searches on. */
  hasMacro(bid: Seat['bids'][number]): boolean | 'more'
  /** Adds the splices of one bid: its price and its macros. False: the next call adds those that follow. */
  expand(bid: Seat['bids'][number], priced: PricedBid, splices: Splices): boolean
  /** All bids are expanded. */
  finish(splices: Splices): void
}

export interface RequestDocument {
  read(): ReadState
  /** Right once `read` returned `complete`. */
  readonly facts: RequestFacts | null
}

/** Macros of one bid that are expanded in one slice. */
export const macrosPerSlice = 2000

/** Text that a URL of a bid has if the bid is to be priced. */
export const contextMarker = Buffer.from('SVC_OPD_CONTEXT')
