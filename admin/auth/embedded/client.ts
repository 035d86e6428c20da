/** The URL by which a client reached the admin listener, and its address, as its connection and trusted proxies say. */
import type { IncomingMessage } from 'node:http'
import {
  type AddressCheck,
  addressOf,
  addressRanges,
  clientAddress,
} from '../../../opd/base/client-address.ts'

export interface ClientDeps {
  /**
   * URL of the admin listener of this node, `http://host:port`. It is read at each use: a port of 0 is only known after
   * the start.
   */
  baseUrl: () => string
  /**
   * URL by which clients reach the listener; null (the default): what a trusted proxy says, else the address of the
   * listener. It is read at each use.
   */
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

/** The host of a URL: IPv6 addresses have brackets. */
const hostOf = (address: string) => (address.includes(':') ? `[${address}]` : address)

/**
 * Whether a Host header names the address and port at which the connection arrived. Such a header says nothing that the
 * client could have chosen, and keeps `localhost` for a client that uses this name.
 */
function namesConnection(host: string, { localAddress, localPort }: IncomingMessage['socket']) {
  const url = `http://${host}`
  const local = addressOf(localAddress ?? '')
  if (local === null || !authority.test(host) || !URL.canParse(url)) return false
  const { hostname, port } = new URL(url)
  if (Number(port || 80) !== localPort) return false
  const isLoopback = local === '::1' || local.startsWith('127.')
  return addressOf(hostname) === local || (isLoopback && hostname === 'localhost')
}

/**
 * Finds out how a client reaches the embedded realm, behind whichever proxies.
 *
 * @param deps addresses of the configuration, and the proxies whose headers are believed
 */
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
  /**
   * The address of the listener, which no header of a client changes: tokens and discovery name it as the issuer. A client
   * cannot connect to a wildcard address, so it is replaced by the local address of the connection.
   */
  function ownUrl({ headers, socket }: IncomingMessage): string {
    const { host = '' } = headers
    if (namesConnection(host, socket)) return `http://${host}`
    const local = addressOf(socket.localAddress ?? '') ?? 'localhost'
    return baseUrl().replace(/\/\/(0\.0\.0\.0|\[::\])(?=:|$)/, `//${hostOf(local)}`)
  }
  /** `X-Forwarded-Host` and `-Proto`, or `Host`, of a trusted proxy; null: there is none, or it names no valid host. */
  function forwardedUrl(request: IncomingMessage): string | null {
    if (!trusted(peerOf(request))) return null
    const { headers } = request
    const forwarded = last(headers['x-forwarded-host'])
    const host = authority.test(forwarded) ? forwarded : (headers.host ?? '')
    const proto = last(headers['x-forwarded-proto']) === 'https' ? 'https' : 'http'
    const url = `${proto}://${host}`
    return authority.test(host) && URL.canParse(url) ? url : null
  }
  return {
    /** The URL by which the client reached the listener, without a path (CONTRACT 2 `admin.publicUrl`). */
    url: (request: IncomingMessage): string =>
      publicUrl()?.replace(/\/+$/, '') ?? forwardedUrl(request) ?? ownUrl(request),
    address(request: IncomingMessage): string {
      const forwarded = request.headers['x-forwarded-for']
      return clientAddress(peerOf(request), [forwarded].flat().join(','), trusted)
    },
  }
}
