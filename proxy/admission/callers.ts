/** Which callers may send bid requests to a supplier, and which peers are trusted proxies. */
import { type AddressCheck, addressRanges, clientAddress } from '../../opd/base/client-address.ts'
import { header } from '../wire/headers.ts'
import { type CallerIdentity, subjectCheck } from './caller-certificate.ts'

const maxCached = 4096

/**
 * A check with a cache of results: callers use few addresses. It keeps at most 4,096 of them.
 *
 * @param ranges addresses or CIDR ranges, IPv4 or IPv6; none: no address is inside
 */
export function addressCheck(ranges: readonly string[]): AddressCheck {
  if (ranges.length === 0) return () => false
  const check = addressRanges(ranges)
  const cache = new Map<string, boolean>()
  return (remote) => {
    let inside = cache.get(remote)
    if (inside === undefined) {
      inside = check(remote)
      if (cache.size >= maxCached) cache.clear()
      cache.set(remote, inside)
    }
    return inside
  }
}

const callerAddress = (remote: string, headers: readonly string[], trusted: AddressCheck) =>
  trusted(remote) ? clientAddress(remote, header(headers, 'x-forwarded-for'), trusted) : remote

/** A bid request, as far as its caller is concerned. */
export interface Caller {
  remote: string
  /** null: the connection has no certificate. */
  identity: CallerIdentity | null
  head: { fields: readonly string[] }
}

/** Why a caller is refused: its address or a header; its certificate. */
export type CallerFault = 'caller' | 'certificate'

/** null: the caller is admitted. */
export type CallerCheck = (caller: Caller, trusted: AddressCheck) => CallerFault | null

/**
 * Whether a caller may send bids to a supplier; null: anyone may.
 *
 * @param callers `headers`: names and the values that must be present; `subjects`: of certificates
 * @returns null if all three are empty: anyone may send bids
 */
export function callerCheck(callers: {
  cidrs: readonly string[]
  headers: Readonly<Record<string, string>>
  subjects: readonly string[]
}): CallerCheck | null {
  const { cidrs, subjects } = callers
  const wanted = Object.entries(callers.headers).map(([name, value]) => [name.toLowerCase(), value])
  if (cidrs.length === 0 && wanted.length === 0 && subjects.length === 0) return null
  const inside = cidrs.length === 0 ? null : addressCheck(cidrs)
  const isSubject = subjects.length === 0 ? null : subjectCheck(subjects)
  return ({ remote, identity, head: { fields } }, trusted) => {
    if (isSubject !== null && (identity === null || !isSubject(identity))) return 'certificate'
    const admitted =
      (inside === null || inside(callerAddress(remote, fields, trusted))) &&
      wanted.every(([name, value]) => header(fields, name!) === value)
    return admitted ? null : 'caller'
  }
}
