/**
 * An external issuer: OpenID Connect discovery and its JWKS, by jose. Keys are kept through an outage, an unknown key
 * id asks again at most once in ten seconds, and only asymmetric algorithms are taken.
 */
import * as jose from 'jose'
import type { Caller } from '../ports.ts'
import type { StoreLog } from '../store/index.ts'
import { callerOf, checked } from './embedded.ts'
import { TokenError } from './errors.ts'

const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
]
/** Milliseconds. */
const timeout = 3000
const retryEvery = 5000
const cooldown = 10_000
const maxAge = 600_000
const largestDocument = 256 * 1024

export interface ExternalOptions {
  issuer: string
  audience: string
  accountClaim: string
  now: () => number
  log: StoreLog
}

export interface ExternalIssuer {
  verify(token: string): Promise<Caller & { expires: number }>
  close(): void
}

async function getJson(url: string): Promise<Record<string, unknown>> {
  const response = await fetch(url, {
    signal: AbortSignal.timeout(timeout),
    redirect: 'error',
    headers: { accept: 'application/json' },
  })
  if (!response.ok) throw new Error(`${url} answered ${response.status}`)
  const text = await response.text()
  if (text.length > largestDocument) throw new Error(`${url} answered ${text.length} characters`)
  return JSON.parse(text) as Record<string, unknown>
}

export function createExternalIssuer(options: ExternalOptions): ExternalIssuer {
  const { issuer, audience, accountClaim, now, log } = options
  let keys: jose.JWTVerifyGetKey | null = null
  let jwksUri: string | null = null
  let fetched = 0
  let asked = Number.NEGATIVE_INFINITY
  let pending: Promise<void> | null = null

  async function load(): Promise<void> {
    asked = now()
    try {
      if (jwksUri === null) {
        const found = await getJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
        if (found['issuer'] !== issuer)
          throw new Error(`discovery names another issuer: ${String(found['issuer'])}`)
        jwksUri = String(found['jwks_uri'])
      }
      keys = jose.createLocalJWKSet((await getJson(jwksUri)) as unknown as jose.JSONWebKeySet)
      fetched = now()
    } catch (error) {
      log.warn(
        { issuer, err: (error as Error).message },
        'the issuer cannot be reached, known keys stay',
      )
    }
  }
  /** One look at a time, and not again at once: floods of unknown keys cost the issuer nothing. */
  const reload = (atLeast: number) => {
    if (pending === null && now() - asked >= atLeast)
      pending = load().finally(() => {
        pending = null
      })
    return pending
  }
  void reload(0)
  const timer = setInterval(() => {
    if (keys === null || now() - fetched > maxAge) void reload(retryEvery)
  }, 1000)
  timer.unref()

  const expectations = {
    issuer,
    algorithms,
    get currentDate() {
      return new Date(now())
    },
  }

  async function verified(token: string): Promise<jose.JWTPayload> {
    if (keys === null) await (pending ?? reload(retryEvery))
    if (keys === null) throw new TokenError('unavailable')
    try {
      return await checked(token, keys, { ...expectations })
    } catch (error) {
      if (!(error instanceof TokenError) || error.code !== 'unknown_key') throw error
      const again = reload(cooldown)
      if (again === null) throw error
      await again
      return checked(token, keys, { ...expectations })
    }
  }

  return {
    async verify(token) {
      const payload = await verified(token)
      // Keycloak marks what a token is; an ID or refresh token opens nothing here.
      const kind = payload['typ']
      if (kind !== undefined && kind !== 'Bearer') throw new TokenError('kind')
      const meant = [payload.aud].flat()
      if (!meant.includes(audience) && payload['azp'] !== audience) throw new TokenError('audience')
      return { ...callerOf(payload, accountClaim, audience), expires: payload.exp! * 1000 }
    },
    close() {
      clearInterval(timer)
    },
  }
}
