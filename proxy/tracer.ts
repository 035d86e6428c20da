/** What a tracer receives when a bid request ends. Without a tracer, a request costs one check for null. */
import type { Body } from '../opd/json/scanner.ts'
import type { RequestOutcome } from './metrics.ts'

/** Times are `performance.now()`. */
export interface FinishedBid {
  ssp: string
  /** A flat list of names and values, as received. */
  fields: readonly string[]
  /** The decoded request; null: it is not readable, or was not read. */
  request: Body | null
  outcome: RequestOutcome
  /** The status of the supplier's response if the caller got it; null: bidweir replied itself. */
  status: number | null
  arrived: number
  ended: number
  /** The last attempt; null: the request was not sent. */
  upstream: { url: URL; sentAt: number; durationMs: number } | null
}

export interface BidTracer {
  bidFinished(bid: FinishedBid): void
}
