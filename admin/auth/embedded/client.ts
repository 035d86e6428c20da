/** The URL by which a client reached the admin listener, and its address, as its requests and trusted proxies say. */
import type { IncomingMessage } from 'node:http'
import {
  type AddressCheck,
  addressOf,
  addressRanges,
  clientAddress,
} from '../../../opd/base/client-address.ts'

export interface ClientDeps {
  /**
   * URL of the admin listener of this node, `http://host:port`, for requests that do not name their host. It is read
   * at each use: a port of 0 is only known after the start.
   */
  baseUrl: () => string
  /** URL by which clients reach the listener; null (the default): taken from each request. It is read at each use. */
  publicUrl?: () => string | null
  /**
   * Addresses of proxies whose X-Forwarded headers are trusted; none by default. They are read at each use, since a
   * reload may change them.
   */
  trustedProxies?: () => readonly string[]
}

/** The address of the socket's peer; '' if there is none. */
const peerOf = ({ socket }: Pick<IncomingMessage, 'socket'>): string =>
  addressOf(socket.remoteAddress ?? '') ?? ''

const authority = /^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:\d{1,5})?$/

/** The last value, which the nearest proxy wrote. The client may have sent the values before it. */
const last = (header: string | string[] | undefined) =>
  [header].flat().join(',').split(',').at(-1)?.trim() ?? ''

/**
 * The URL by which a client reached the admin listener (CONTRACT 2 `admin.publicUrl`): `scheme://host[:port]` from
 * `X-Forwarded-Host` and `-Proto` of a trusted proxy, or from `Host`; `otherwise` if neither is valid. The listener
 * itself has no TLS.
 */
function reachedAt(
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

export function clientOf({
  baseUrl,
  publicUrl = () => null,
  trustedProxies = () => [],
}: ClientDeps) {
  // compiled again only when a reload has replaced the list
  let ranges: readonly string[] = []
  let isInRanges: AddressCheck = () => false
  const trusted: AddressCheck = (address) => {
    if (ranges !== trustedProxies()) {
      ranges = trustedProxies()
      isInRanges = addressRanges(ranges)
    }
    return isInRanges(address)
  }
  // A client cannot connect to a wildcard address.
  const ownUrl = () => baseUrl().replace(/\/\/(0\.0\.0\.0|\[::\])(?=:|$)/, '//localhost')
  return {
    url: (request: IncomingMessage): string =>
      publicUrl()?.replace(/\/+$/, '') ?? reachedAt(request, trusted, ownUrl()),
    address(request: IncomingMessage): string {
      const forwarded = request.headers['x-forwarded-for']
      return clientAddress(peerOf(request), [forwarded].flat().join(','), trusted)
    },
  }
}
