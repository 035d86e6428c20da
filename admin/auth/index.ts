/** Token verification for an external or the embedded issuer, and the token endpoint of the embedded one. */
import type { FastifyPluginAsync } from 'fastify'
import type { Log } from '../../opd/base/log.ts'
import type { AuthConfig } from '../config.ts'
import type { Store } from '../store/index.ts'
import { type ClientDeps, clientOf } from './embedded/client.ts'
import { tokenEndpoint } from './embedded/endpoint.ts'
import { createIssuer, openKeys } from './embedded/issuer.ts'
import { refreshTokens } from './embedded/refresh-tokens.ts'
import { DiscoveredKeys, externalCheck } from './external-issuer.ts'
import { createThrottle } from './throttle.ts'
import { cachedVerifier, type TokenVerifier } from './tokens.ts'

export interface AuthDeps extends ClientDeps {
  store: Pick<Store, 'db' | 'postgres'>
  log: Log
  now?: () => number
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

/**
 * Does not wait for an external issuer: its keys are fetched meanwhile, and calls with a token wait for the first fetch.
 *
 * @param config the embedded realm, or the address of an external one
 * @param deps the store of users, and the clock
 */
export async function createAuth(config: AuthConfig, deps: AuthDeps): Promise<Auth> {
  const { store, log, now = Date.now } = deps
  const failures = new Map<string, number>()
  const refused = (kind: string) => void failures.set(kind, (failures.get(kind) ?? 0) + 1)
  if ('issuer' in config) {
    const keys = new DiscoveredKeys(config.issuer, log, now)
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
  const client = clientOf(deps)
  const plugin = tokenEndpoint({
    store,
    realm,
    url: (request) => client.url(request) + path,
    issuer,
    keys,
    refresh: refreshTokens(store, now),
    throttle: createThrottle(now),
    refused,
    address: client.address,
  })
  return {
    verifier: { ...verifier, refused },
    plugin,
    realm,
    failures,
    close: verifier.close,
  }
}
