/** Which callers may send bid requests to a supplier, and which peers are trusted proxies. */
import { type AddressCheck, addressRanges, clientAddress } from '../../opd/base/client-address.ts'
import { header } from '../wire/headers.ts'

const maxCached = 4096

/** A check with a cache of results: callers use few addresses. Bounded. */
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

export type CallerCheck = (
  remote: string,
  headers: readonly string[],
  trusted: AddressCheck,
) => boolean

export function callerCheck(callers: {
  cidrs: readonly string[]
  headers: Readonly<Record<string, string>>
}): CallerCheck | null {
  const wanted = Object.entries(callers.headers).map(([name, value]) => [name.toLowerCase(), value])
  if (callers.cidrs.length === 0 && wanted.length === 0) return null
  const inside = callers.cidrs.length === 0 ? null : addressCheck(callers.cidrs)
  return (remote, headers, trusted) =>
    (inside === null || inside(callerAddress(remote, headers, trusted))) &&
    wanted.every(([name, value]) => header(headers, name!) === value)
}
