/** Whose log-in it is: the caller's address, through the proxies that are trusted and no others. */
import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Hops that are followed; a chain of real proxies is shorter. */
const maxHops = 16

/** Without port, brackets and zone; null: no address. */
function addressOf(text: string): ipaddr.IPv4 | ipaddr.IPv6 | null {
  const bare = text
    .trim()
    .replace(/^\[([^\]]*)\](:\d+)?$/, '$1')
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1')
    .replace(/%.*$/, '')
  // what a browser would take for an address, such as 1.2 or 0x7f.1, is none here
  return isIP(bare) === 0 ? null : ipaddr.process(bare)
}

/** A socket's other end as one spelling of its address; '' where there is none. */
export const peerOf = (remote: string): string => addressOf(remote)?.toString() ?? ''

export type Trusted = (address: string) => boolean

/** Addresses and CIDR ranges, as the configuration checked them. */
export function trustedRanges(ranges: readonly string[]): Trusted {
  const list = new BlockList()
  for (const range of ranges) {
    const [ip = '', bits] = range.split('/')
    const family = isIP(ip) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(ip, family)
    else list.addSubnet(ip, Number(bits), family)
  }
  return (address) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/**
 * The first address from the right of X-Forwarded-For that is not a trusted proxy's: what stands left of it is the
 * caller's own word. Where the chain ends or cannot be read it is the last proxy's.
 */
export function clientAddress(
  remote: string,
  forwarded: string | undefined,
  trusted: Trusted,
): string {
  let address = peerOf(remote)
  const hops = forwarded?.split(',').reverse().slice(0, maxHops) ?? []
  for (const hop of hops) {
    if (!trusted(address)) break
    const next = addressOf(hop)
    if (next === null) break
    address = next.toString()
  }
  return address
}

/** What counts as one caller: a household has a whole IPv6 /64. */
export function networkOf(address: string): string {
  const parsed = addressOf(address)
  if (parsed === null || parsed.kind() === 'ipv4') return address
  return Buffer.from(parsed.toByteArray().slice(0, 8)).toString('hex')
}
