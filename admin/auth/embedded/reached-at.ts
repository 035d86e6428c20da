/** Where a caller reached the admin listener (CONTRACT 2 `admin.publicUrl`). */
import type { IncomingMessage } from 'node:http'
import { peerOf, type Trusted } from '../address.ts'

const authority = /^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:\d{1,5})?$/

/** What the nearest proxy wrote: whatever is before it in the list may be the caller's own. */
const last = (header: string | string[] | undefined) =>
  [header].flat().join(',').split(',').at(-1)?.trim() ?? ''

/**
 * `scheme://host[:port]` from `X-Forwarded-Host` and `-Proto` of a trusted proxy, or from `Host`; `otherwise` where
 * neither can be read. The listener has no TLS of its own.
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
