/** Traces of bid requests. A request that is not sampled costs one look at its header fields. */
import type { Body } from '../opd/json/scanner.ts'
import type { RequestOutcome } from './metrics.ts'

/** What a span receives when its bid request ends. Times are `performance.now()`. */
export interface FinishedBid {
  ssp: string
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

export interface BidSpan {
  /** A flat list of names and values: those of the request, with the parent of the supplier's span. */
  readonly fields: readonly string[]
  /** @param bid is read during the call only */
  end(bid: FinishedBid): void
}

export interface BidTracer {
  /**
   * null: the request is not sampled.
   *
   * @param fields a flat list of names and values, as received
   */
  begin(fields: readonly string[]): BidSpan | null
}
