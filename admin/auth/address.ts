/** The URL by which a client reached the admin listener, and the unit of addresses that is throttled. */
import type { IncomingMessage } from 'node:http'
import ipaddr from 'ipaddr.js'
import { type AddressCheck, addressOf } from '../../opd/shared/client-address.ts'

/** The address of the socket's peer; '' if there is none. */
export const peerOf = ({ socket }: Pick<IncomingMessage, 'socket'>): string =>
  addressOf(socket.remoteAddress ?? '') ?? ''

/** The unit that is throttled: an IPv4 address, or an IPv6 /64, which one household has. */
export function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
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
  request: Pick<IncomingMessage, 'headers' | 'socket'>,
  trusted: AddressCheck,
  otherwise: string,
): string {
  const { headers } = request
  const proxied = trusted(peerOf(request))
  const forwarded = proxied ? last(headers['x-forwarded-host']) : ''
  const host = authority.test(forwarded) ? forwarded : (headers.host ?? '')
  if (!authority.test(host)) return otherwise
  const proto = proxied && last(headers['x-forwarded-proto']) === 'https' ? 'https' : 'http'
  const base = `${proto}://${host}`
  return URL.canParse(base) ? base : otherwise
}
