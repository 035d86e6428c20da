/** The bid request as OPD reads it: once per answer that holds the pattern, never before. */
import { type Scanner, scannerOf } from './json/scan.ts'
import { RequestFacts } from './request/facts.ts'
import { readRoot } from './request/root.ts'

export { DealFacts, type Floor, ImpFacts, RequestFacts } from './request/facts.ts'
export { quickTmax, tmaxReach } from './request/tmax.ts'

/** null: not UTF-8, not JSON, nested deeper than 1,000, or no object. */
export function readRequest(body: Buffer): RequestFacts | null {
  const scan = scannerOf(body)
  return scan === null ? null : requestOf(scan)
}

/** The same of bytes that are being scanned already. */
export function requestOf(scan: Scanner): RequestFacts | null {
  const facts = new RequestFacts()
  return scan.document(readRoot, facts) ? facts : null
}
