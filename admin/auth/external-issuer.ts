/**
 * Access tokens of an OpenID Connect issuer such as Keycloak (CONTRACT 9), and the keys that sign them.
 */
import { type CryptoKey, createLocalJWKSet, type JWK, type JWTPayload, jwtVerify } from 'jose'
import type { Log } from '../../opd/base/log.ts'
import type { Caller } from '../http/roles.ts'
import { type AcceptedToken, failureOf, TokenError } from './tokens.ts'

/** Only asymmetric algorithms: a public key must not be used as a shared secret. */
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

const keyTypes = ['RSA', 'EC', 'OKP']

/** Milliseconds between two fetches of the keys, and until the next one while no key is known. */
const fetchInterval = 10 * 60_000
const firstRetry = 2000
/** Milliseconds between two fetches for unknown key ids, so that a flood of them causes one fetch. */
const coolDown = 5000
/** Limits of a response of the issuer: milliseconds, bytes, keys. */
const timeout = 5000
const maxBytes = 512 * 1024
const maxKeys = 100

interface IssuerKeys {
  /** Throws a TokenError: `unknown_key`, or `unavailable` if no keys have been fetched yet. */
  find(kid: string, alg: string): Promise<CryptoKey>
  close(): void
}

async function getJson(url: string): Promise<Record<string, unknown>> {
  const answer = await fetch(url, {
    headers: { accept: 'application/json' },
    redirect: 'error',
    signal: AbortSignal.timeout(timeout),
  })
  if (!answer.ok || answer.body === null) {
    await answer.body?.cancel()
    throw new Error(`${url} returned ${answer.status}`)
  }
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of answer.body) {
    size += part.byteLength
    if (size > maxBytes) throw new Error(`${url} returned more than ${maxBytes} bytes`)
    parts.push(part)
  }
  const value: unknown = JSON.parse(Buffer.concat(parts).toString())
  if (typeof value !== 'object' || value === null) throw new Error(`${url} returned no JSON object`)
  return value as Record<string, unknown>
}

interface KnownKeys {
  ids: ReadonlySet<string>
  find: ReturnType<typeof createLocalJWKSet>
}

/** The keys that a key set has for signatures. Throws if it has none, which indicates a fault of the issuer. */
function usableKeys(keys: readonly JWK[]): KnownKeys {
  const next = new Map<string, JWK>()
  for (const jwk of keys.slice(0, maxKeys))
    if (
      typeof jwk?.kid === 'string' &&
      keyTypes.includes(String(jwk.kty)) &&
      (jwk.use === undefined || jwk.use === 'sig')
    )
      next.set(jwk.kid, jwk)
  if (next.size === 0) throw new Error('the key set contains no usable key')
  return { ids: new Set(next.keys()), find: createLocalJWKSet({ keys: [...next.values()] }) }
}

/** The keys are discovered, refreshed, and kept while the issuer is unreachable. */
export class DiscoveredKeys implements IssuerKeys {
  private readonly issuer: string
  private readonly log: Log
  private readonly now: () => number
  /** null: none were fetched yet. */
  private known: KnownKeys | null = null
  /** null: none are being fetched. */
  private fetching: Promise<void> | null = null
  private fetchedAt = Number.NEGATIVE_INFINITY
  private closed = false
  private timer: NodeJS.Timeout | undefined

  /** @param now milliseconds of any clock */
  constructor(issuer: string, log: Log, now: () => number) {
    this.issuer = issuer
    this.log = log
    this.now = now
    void this.refresh()
  }

  async find(kid: string, alg: string): Promise<CryptoKey> {
    if (this.known?.ids.has(kid) !== true) {
      if (this.fetching !== null) await this.fetching
      else if (this.now() - this.fetchedAt >= coolDown) await this.refresh()
    }
    const { known } = this
    if (known === null) throw new TokenError('unavailable')
    if (!known.ids.has(kid)) throw new TokenError('unknown_key')
    return known.find({ alg, kid })
  }

  close(): void {
    this.closed = true
    clearTimeout(this.timer)
  }

  private async loadIssuer(): Promise<void> {
    const { issuer } = this
    const found = await getJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
    // OpenID Connect Discovery 4.3
    if (found['issuer'] !== issuer) throw new Error('the document names another issuer')
    if (typeof found['jwks_uri'] !== 'string') throw new Error('the document names no jwks_uri')
    const { keys } = await getJson(found['jwks_uri'])
    if (!Array.isArray(keys)) throw new Error('the key set contains no keys')
    // A key set that is not usable does not replace the previous one.
    this.known = usableKeys(keys)
  }

  private refresh(): Promise<void> {
    this.fetchedAt = this.now()
    this.fetching ??= this.loadIssuer()
      .then(
        () => this.schedule(fetchInterval),
        (error: Error) => this.failed(error),
      )
      .finally(() => {
        this.fetching = null
      })
    return this.fetching
  }

  private failed(error: Error): void {
    const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
    const kept = this.known?.ids.size ?? 0
    this.log.warn(
      { issuer: this.issuer, err: error.message + cause, kept },
      'keys of the issuer could not be fetched',
    )
    this.schedule(this.known === null ? firstRetry : fetchInterval / 10)
  }

  private schedule(after: number): void {
    if (this.closed) return
    clearTimeout(this.timer)
    this.timer = setTimeout(() => void this.refresh(), after).unref()
  }
}

interface ExternalSettings {
  issuer: string
  audience: string
  /** The name of the role `api` at the issuer. */
  role: string
  accountClaim: string
}

/** Tolerated clock skew in seconds. */
const clockSkew = 5
/** Seconds that `iat` may be in the future. If it is later, one of the clocks is wrong. */
const maxAhead = 60
/** Characters of a claim, and roles of a token. */
const maxText = 512
const maxRoles = 1000

const textOf = (value: unknown): string | null =>
  typeof value === 'string' && value.length <= maxText && !/\p{Cc}/u.test(value) ? value : null

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}

function rolesOf(payload: JWTPayload, { audience, role }: ExternalSettings): Set<string> {
  const roles = new Set<string>()
  for (const holder of [payload['realm_access'], member(payload['resource_access'], audience)]) {
    const list = member(holder, 'roles')
    if (!Array.isArray(list)) continue
    for (const role of list.slice(0, maxRoles)) if (typeof role === 'string') roles.add(role)
  }
  // only the configured role grants `api`; a role with the name `api` at the issuer is a different one
  const api = roles.has(role)
  roles.delete('api')
  if (api) roles.add('api')
  return roles
}

/** A claim by its name, or by a path of names with dots. An array with one element counts as the element. */
function accountOf(payload: JWTPayload, claim: string): string {
  let value: unknown = member(payload, claim)
  if (value === undefined)
    value = claim.split('.').reduce<unknown>((inner, name) => member(inner, name), payload)
  const one = Array.isArray(value) && value.length === 1 ? value[0] : value
  if (one === undefined || one === null) return ''
  const account = textOf(one)
  if (account === null) throw new TokenError('claims')
  return account
}

/** Rejects ID and refresh tokens, which are signed by the same keys. */
function checkType(payload: JWTPayload, header: string | undefined): void {
  const kind = header?.toLowerCase().replace(/^application\//, '')
  if (kind !== undefined && kind !== 'jwt' && kind !== 'at+jwt') throw new TokenError('type')
  const { typ } = payload
  if (typ !== undefined && (typeof typ !== 'string' || typ.toLowerCase() !== 'bearer'))
    throw new TokenError('type')
  // only ID tokens have the first two (OpenID Connect Core 3.1.3.6); this service cannot check that the caller has the
  // key that the third names (RFC 7800)
  for (const claim of ['at_hash', 'c_hash', 'cnf'])
    if (payload[claim] !== undefined) throw new TokenError('type')
}

export function externalCheck(
  settings: ExternalSettings,
  keys: IssuerKeys,
  now: () => number,
): (token: string) => Promise<AcceptedToken> {
  const { issuer, audience, accountClaim } = settings
  return async (token) => {
    try {
      const { payload, protectedHeader } = await jwtVerify(
        token,
        // jku, jwk, x5u and x5c are chosen by the sender and are ignored
        ({ kid, alg }) => {
          if (textOf(kid) === null) throw new TokenError('unknown_key')
          return keys.find(kid ?? '', alg)
        },
        {
          algorithms,
          issuer,
          clockTolerance: clockSkew,
          currentDate: new Date(now()),
          requiredClaims: ['exp', 'sub'],
        },
      )
      const { aud, azp, sub, exp = 0, iat = 0 } = payload
      if (iat > now() / 1000 + maxAhead) throw new TokenError('not_yet')
      if (![aud].flat().includes(audience) && azp !== audience) throw new TokenError('audience')
      checkType(payload, protectedHeader.typ)
      const subject = textOf(sub)
      if (subject === null) throw new TokenError('claims')
      const caller: Caller = {
        subject: textOf(payload['preferred_username']) ?? subject,
        account: accountOf(payload, accountClaim),
        roles: rolesOf(payload, settings),
      }
      return { caller, expiresAt: (exp + clockSkew) * 1000 }
    } catch (error) {
      throw failureOf(error)
    }
  }
}
