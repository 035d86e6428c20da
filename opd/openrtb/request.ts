/** The bid request as OPD reads it: once per answer that holds the pattern, never before. */

import { type Read, type Scanner, scannerOf } from '../json/scanner.ts'
import { RequestFacts } from './facts.ts'
import { readCall, readRoot } from './root.ts'

export { DealFacts, type Floor, ImpFacts, RequestFacts } from './facts.ts'
export { quickTmax, tmaxReach } from './tmax.ts'

/** null: not UTF-8, not JSON, nested deeper than 1,000, or no object. */
export function readRequest(body: Buffer): RequestFacts | null {
  const scan = scannerOf(body)
  return scan === null ? null : factsOf(scan, readRoot)
}

/** What the body of a standalone call has of a BidRequest, in itself or in its `bidrequest`. */
export function requestInCall(scan: Scanner): RequestFacts | null {
  return factsOf(scan, readCall)
}

function factsOf(scan: Scanner, root: Read<RequestFacts>): RequestFacts | null {
  const facts = new RequestFacts()
  return scan.document(root, facts) ? facts : null
}
