/** Token verification for an external or the embedded issuer, and the token endpoint of the embedded one. */
import type { FastifyPluginAsync } from 'fastify'
import { type AddressCheck, addressRanges, clientAddress } from '../../opd/shared/client-address.ts'
import type { Log } from '../../opd/shared/log.ts'
import type { AuthConfig } from '../config.ts'
import type { TokenVerifier } from '../ports.ts'
import type { Store } from '../store/index.ts'
import { peerOf, reachedAt } from './address.ts'
import { cachedVerifier } from './cache.ts'
import { tokenEndpoint } from './embedded/endpoint.ts'
import { createIssuer } from './embedded/issuer.ts'
import { openKeys } from './embedded/keys.ts'
import { refreshTokens } from './embedded/refresh.ts'
import { externalCheck } from './external/check.ts'
import { issuerKeys } from './external/keys.ts'
import { createThrottle } from './throttle.ts'

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

/** Does not wait for an external issuer: its keys are fetched meanwhile, and calls with tokens wait for the first attempt. */
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
  let list: AddressCheck = () => false
  const trusted: AddressCheck = (address) => {
    if (ranges !== trustedProxies()) {
      ranges = trustedProxies()
      list = addressRanges(ranges)
    }
    return list(address)
  }
  // A client cannot connect to a wildcard address.
  const own = () => deps.baseUrl().replace(/\/\/(0\.0\.0\.0|\[::\])(?=:|$)/, '//localhost')
  const plugin = tokenEndpoint({
    store,
    realm,
    url: (request) =>
      `${publicUrl()?.replace(/\/+$/, '') ?? reachedAt(request, trusted, own())}${path}`,
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
