/** The client's address behind trusted proxies, and the URL by which it reached the listener. */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Hops of X-Forwarded-For that are evaluated; real chains of proxies are shorter. */
const maxHops = 16

/** The address without port, brackets and zone; null if the text is not an address. */
function addressOf(text: string): ipaddr.IPv4 | ipaddr.IPv6 | null {
  const bare = text
    .trim()
    .replace(/^\[([^\]]*)\](:\d+)?$/, '$1')
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1')
    .replace(/%.*$/, '')
  // legacy forms that browsers accept, such as 1.2 or 0x7f.1, are rejected
  return isIP(bare) === 0 ? null : ipaddr.process(bare)
}

/** The normalized address of the socket's peer; '' if there is none. */
const peerOf = (remote: string): string => addressOf(remote)?.toString() ?? ''

export type Trusted = (address: string) => boolean

/** `ranges` contains addresses and CIDR ranges that the configuration has validated. */
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
 * The first address from the right of X-Forwarded-For that is not a trusted proxy. The entries to its left may be
 * forged by the client. If the chain ends or an entry is invalid, it is the last trusted proxy.
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

/** The unit that is throttled: an IPv4 address, or an IPv6 /64, which one household has. */
export function networkOf(address: string): string {
  const parsed = addressOf(address)
  if (parsed === null || parsed.kind() === 'ipv4') return address
  return Buffer.from(parsed.toByteArray().slice(0, 8)).toString('hex')
}

const authority = /^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:\d{1,5})?$/

/** The last value, which the nearest proxy wrote. The client may have sent the values before it. */
const last = (header: string | string[] | undefined) =>
  [header].flat().join(',').split(',').at(-1)?.trim() ?? ''

/**
 * The URL by which a client reached the admin listener (CONTRACT 2 `admin.publicUrl`): `scheme://host[:port]` from `X-Forwarded-Host` and `-Proto` of a trusted proxy, or from `Host`; `otherwise` if
 * neither is valid. The listener itself has no TLS.
 */
export function reachedAt(
  { headers, socket }: Pick<IncomingMessage, 'headers' | 'socket'>,
  trusted: Trusted,
  otherwise: string,
): string {
  const proxied = trusted(peerOf(socket.remoteAddress ?? ''))
  const forwarded = proxied ? last(headers['x-forwarded-host']) : ''
  const host = authority.test(forwarded) ? forwarded : (headers.host ?? '')
  if (!authority.test(host)) return otherwise
  const proto = proxied && last(headers['x-forwarded-proto']) === 'https' ? 'https' : 'http'
  const base = `${proto}://${host}`
  return URL.canParse(base) ? base : otherwise
}
