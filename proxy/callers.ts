/** Which callers may send bid requests to a supplier, and which peers are trusted proxies. */
import { BlockList, isIP } from 'node:net'
import { header } from './exchange/headers.ts'

export type AddressCheck = (remote: string) => boolean

const maxCached = 4096

/** The IPv4 address inside `::ffff:1.2.3.4`, as a dual-stack listener reports IPv4 peers. */
export function plainAddress(remote: string): string {
  return remote.startsWith('::ffff:') && remote.includes('.') ? remote.slice(7) : remote
}

/** A check with a cache of results: callers use few addresses. Bounded. */
export function addressCheck(ranges: readonly string[]): AddressCheck {
  if (ranges.length === 0) return () => false
  const list = new BlockList()
  for (const range of ranges) {
    const [ip, bits] = range.split('/')
    const family = isIP(ip!) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(ip!, family)
    else list.addSubnet(ip!, Number(bits), family)
  }
  const cache = new Map<string, boolean>()
  return (remote) => {
    let inside = cache.get(remote)
    if (inside === undefined) {
      inside = list.check(remote, isIP(remote) === 6 ? 'ipv6' : 'ipv4')
      if (cache.size >= maxCached) cache.clear()
      cache.set(remote, inside)
    }
    return inside
  }
}

/** Entries of X-Forwarded-For that are read; a chain of real proxies is shorter. */
const maxHops = 16

/** An entry without port and brackets; null: not an address. */
function hopOf(text: string): string | null {
  const bare = text
    .trim()
    .replace(/^\[([^\]]*)\](?::\d+)?$/, '$1')
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1')
  // A copy: the cache of a check would keep the whole head of a slice in memory.
  return isIP(bare) === 0 ? null : plainAddress(Buffer.from(bare, 'latin1').toString('latin1'))
}

/**
 * The caller's address: behind trusted proxies, the first address from the right of X-Forwarded-For that is not a trusted
 * proxy. Entries to the left of it are the caller's own claims. If the chain ends or is malformed, the last proxy is the
 * caller.
 */
export function callerAddress(
  remote: string,
  headers: readonly string[],
  trusted: AddressCheck,
): string {
  if (!trusted(remote)) return remote
  const hops = header(headers, 'x-forwarded-for')?.split(',').reverse().slice(0, maxHops) ?? []
  let address = remote
  for (const hop of hops) {
    const next = hopOf(hop)
    if (next === null) break
    address = next
    if (!trusted(address)) break
  }
  return address
}

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
