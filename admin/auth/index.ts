/** Token verification for an external or the embedded issuer, and the token endpoint of the embedded one. */
import type { IncomingMessage } from 'node:http'
import type { FastifyPluginAsync } from 'fastify'
import {
  type AddressCheck,
  addressOf,
  addressRanges,
  clientAddress,
} from '../../opd/shared/client-address.ts'
import type { Log } from '../../opd/shared/log.ts'
import type { AuthConfig } from '../config.ts'
import type { Store } from '../store/index.ts'
import { tokenEndpoint } from './embedded/endpoint.ts'
import { createIssuer, openKeys } from './embedded/issuer.ts'
import { refreshTokens } from './embedded/refresh-tokens.ts'
import { externalCheck, issuerKeys } from './external-issuer.ts'
import { createThrottle } from './throttle.ts'
import { cachedVerifier, type TokenVerifier } from './tokens.ts'

export interface AuthDeps {
  store: Pick<Store, 'db' | 'postgres'>
  /**
   * URL of the admin listener of this node, `http://host:port`, for requests that do not name their host. It is read
   * at each use: a port of 0 is only known after the start.
   */
  baseUrl: () => string
  /** URL by which clients reach the listener; null (the default): taken from each request. It is read at each use. */
  publicUrl?: () => string | null
  log: Log
  now?: () => number
  /**
   * Addresses of proxies whose X-Forwarded headers are trusted; none by default. They are read at each use, since a
   * reload may change them.
   */
  trustedProxies?: () => readonly string[]
}

interface Auth {
  verifier: TokenVerifier
  /** The token endpoint of an embedded realm; null for an external issuer. */
  plugin: FastifyPluginAsync | null
  realm: string | null
  /** Refused calls and log-ins by kind: the code of the token error, `password`, `refresh_token`, `throttled`. */
  failures: ReadonlyMap<string, number>
  close(): void
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

/** Does not wait for an external issuer: its keys are fetched meanwhile, and calls with a token wait for the first fetch. */
export async function createAuth(config: AuthConfig, deps: AuthDeps): Promise<Auth> {
  const { store, log, now = Date.now } = deps
  const failures = new Map<string, number>()
  const refused = (kind: string) => void failures.set(kind, (failures.get(kind) ?? 0) + 1)
  if ('issuer' in config) {
    const keys = issuerKeys(config.issuer, log, now)
    const verifier = cachedVerifier(externalCheck(config, keys, now), now)
    const close = () => {
      keys.close()
      verifier.close()
    }
    return { verifier: { ...verifier, refused }, plugin: null, realm: null, failures, close }
  }
  const { realm } = config.embedded
  const path = `/auth/realms/${realm}`
  const keys = await openKeys(store)
  const issuer = createIssuer(keys, path, now)
  const verifier = cachedVerifier(issuer.check, now)
  const { trustedProxies = () => [], publicUrl = () => null } = deps
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
  const ownUrl = () => deps.baseUrl().replace(/\/\/(0\.0\.0\.0|\[::\])(?=:|$)/, '//localhost')
  const plugin = tokenEndpoint({
    store,
    realm,
    url: (request) =>
      `${publicUrl()?.replace(/\/+$/, '') ?? reachedAt(request, trusted, ownUrl())}${path}`,
    issuer,
    keys,
    refresh: refreshTokens(store, now),
    throttle: createThrottle(now),
    refused,
    address(request) {
      const forwarded = request.headers['x-forwarded-for']
      return clientAddress(peerOf(request), [forwarded].flat().join(','), trusted)
    },
  })
  return {
    verifier: { ...verifier, refused },
    plugin,
    realm,
    failures,
    close: verifier.close,
  }
}
