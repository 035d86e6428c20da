/** The address of a client behind trusted proxies. */
import { BlockList, isIP } from 'node:net'

/** Whether an address is in a list of ranges. */
export type AddressCheck = (address: string) => boolean

const familyOf = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

/**
 * A check whether an address is in one of some ranges.
 *
 * @param ranges addresses and CIDR ranges (`10.0.0.0/8`) that the configuration has validated
 */
export function addressRanges(ranges: readonly string[]): AddressCheck {
  const list = new BlockList()
  for (const range of ranges) {
    const [ip = '', bits] = range.split('/')
    if (bits === undefined) list.addAddress(ip, familyOf(ip))
    else list.addSubnet(ip, Number(bits), familyOf(ip))
  }
  return (address) => list.check(address, familyOf(address))
}

/**
 * The IPv4 address inside `::ffff:1.2.3.4`, as a dual-stack listener reports IPv4 peers.
 *
 * @param address of a socket, without port
 */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}

/**
 * The address without port, brackets and zone; null: not an address.
 *
 * @param text an address as a header or a socket has it: `10.0.0.1`, `10.0.0.1:80`, `[::1]:80`, `fe80::1%eth0`
 */
export function addressOf(text: string): string | null {
  const bare = text
    .trim()
    .replace(/^\[([^\]]*)\](:\d+)?$/, '$1')
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1')
    .replace(/%.*$/, '')
  // A copy: a cache of addresses would keep the whole head of a slice in memory.
  return isIP(bare) === 0 ? null : plainAddress(Buffer.from(bare, 'latin1').toString('latin1'))
}

/** Entries of X-Forwarded-For that are read; a chain of real proxies is shorter. */
const maxHops = 16

/**
 * The first address from the right of X-Forwarded-For that is not a trusted proxy. The client may have forged the entries to
 * its left. If the chain ends or an entry is not an address, the last trusted proxy.
 *
 * @param remote the address of the peer
 * @param forwarded the value of X-Forwarded-For; undefined: the field is absent
 */
export function clientAddress(
  remote: string,
  forwarded: string | undefined,
  trusted: AddressCheck,
): string {
  let address = remote
  for (const hop of forwarded?.split(',').reverse().slice(0, maxHops) ?? []) {
    if (!trusted(address)) break
    const next = addressOf(hop)
    if (next === null) break
    address = next
  }
  return address
}
