/** The URL by which a client reached the admin listener (CONTRACT 2 `admin.publicUrl`). */
import type { IncomingMessage } from 'node:http'
import { peerOf, type Trusted } from '../address.ts'

const authority = /^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:\d{1,5})?$/

/** The last value, which the nearest proxy wrote. The client may have sent the values before it. */
const last = (header: string | string[] | undefined) =>
  [header].flat().join(',').split(',').at(-1)?.trim() ?? ''

/**
 * `scheme://host[:port]` from `X-Forwarded-Host` and `-Proto` of a trusted proxy, or from `Host`; `otherwise` if
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
