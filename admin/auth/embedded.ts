/**
 * The embedded token endpoint: password and refresh grants (RFC 6749 4.3, 6), ES256 access tokens, refresh tokens
 * that rotate and whose reuse ends their family (RFC 9700 4.14.2). Keys and tokens live in the store: nodes share them.
 */
import { createHash, randomBytes } from 'node:crypto'
import * as jose from 'jose'
import type { Caller } from '../ports.ts'
import type { Store } from '../store/index.ts'
import { TokenError } from './errors.ts'
import { checkPassword } from './passwords.ts'
import { findUser, type User } from './users.ts'

/** Seconds. */
export const accessLife = 300
export const refreshLife = 86_400
export const clientId = 'public-client'
export const audience = 'bidweir'
const scopes = 'openid email profile'
const algorithm = 'ES256'

export interface TokenResponse {
  access_token: string
  expires_in: number
  refresh_token: string
  refresh_expires_in: number
  token_type: 'Bearer'
  scope: string
}

export interface EmbeddedIssuer {
  issuer: string
  jwks(): { keys: jose.JWK[] }
  /** null: the password or the user is wrong. */
  password(name: string, password: string, scope: string | undefined): Promise<TokenResponse | null>
  /** null: not a refresh token of ours, expired, or used before (its family ends then). */
  refresh(token: string): Promise<TokenResponse | null>
  verify(token: string): Promise<Caller & { expires: number }>
}

const digest = (token: string) => createHash('sha256').update(token).digest('base64url')

async function signingKey(store: Store, now: number): Promise<jose.JWK> {
  const read = () =>
    store.db.selectFrom('signing_keys').selectAll().orderBy('created_at').executeTakeFirst()
  const known = await read()
  if (known !== undefined) return JSON.parse(known.private_jwk) as jose.JWK
  const { privateKey } = await jose.generateKeyPair(algorithm, { extractable: true })
  const jwk = await jose.exportJWK(privateKey)
  const kid = await jose.calculateJwkThumbprint(jwk)
  // Two nodes that start together each make one; both read back the older.
  await store.db
    .insertInto('signing_keys')
    .values({
      kid,
      private_jwk: JSON.stringify({ ...jwk, kid, alg: algorithm, use: 'sig' }),
      created_at: now,
    })
    .execute()
  return JSON.parse((await read())!.private_jwk) as jose.JWK
}

export async function createEmbeddedIssuer(
  store: Store,
  options: { issuer: string; now: () => number },
): Promise<EmbeddedIssuer> {
  const { issuer, now } = options
  const jwk = await signingKey(store, now())
  const privateKey = (await jose.importJWK(jwk, algorithm)) as jose.CryptoKey
  const { d: _private, ...publicJwk } = jwk
  const publicKey = (await jose.importJWK(publicJwk, algorithm)) as jose.CryptoKey
  const seconds = () => Math.floor(now() / 1000)

  async function issue(user: User, scope: string, family: string): Promise<TokenResponse> {
    const at = seconds()
    const access = await new jose.SignJWT({
      typ: 'Bearer',
      azp: clientId,
      scope,
      preferred_username: user.name,
      account: user.account,
      realm_access: { roles: user.roles },
    })
      .setProtectedHeader({ alg: algorithm, typ: 'JWT', kid: jwk.kid! })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject(user.name)
      .setIssuedAt(at)
      .setNotBefore(at)
      .setExpirationTime(at + accessLife)
      .setJti(randomBytes(12).toString('base64url'))
      .sign(privateKey)
    const refresh = randomBytes(32).toString('base64url')
    await store.db
      .insertInto('refresh_tokens')
      .values({
        hash: digest(refresh),
        family,
        user_name: user.name,
        scope,
        expires_at: now() + refreshLife * 1000,
        used: 0,
      })
      .execute()
    return {
      access_token: access,
      expires_in: accessLife,
      refresh_token: refresh,
      refresh_expires_in: refreshLife,
      token_type: 'Bearer',
      scope,
    }
  }

  /** Marks a refresh token used, once: of two at the same time one wins. Says whose it was. */
  async function consume(hash: string) {
    const row = await store.db
      .selectFrom('refresh_tokens')
      .selectAll()
      .where('hash', '=', hash)
      .executeTakeFirst()
    if (row === undefined) return null
    const marked = await store.db
      .updateTable('refresh_tokens')
      .set({ used: 1 })
      .where('hash', '=', hash)
      .where('used', '=', 0)
      .executeTakeFirst()
    if (Number(marked.numUpdatedRows) === 1) return Number(row.expires_at) > now() ? row : null
    await store.db.deleteFrom('refresh_tokens').where('family', '=', row.family).execute()
    return null
  }

  return {
    issuer,
    jwks: () => ({ keys: [publicJwk] }),
    async password(name, password, scope) {
      const user = await findUser(store, name)
      const good = await checkPassword(password, user?.hash)
      if (!good || user === null) return null
      await store.db.deleteFrom('refresh_tokens').where('expires_at', '<', now()).execute()
      return issue(
        user,
        scope === undefined || scope.trim() === '' ? scopes : scope,
        randomBytes(12).toString('base64url'),
      )
    },
    async refresh(token) {
      const row = await consume(digest(token))
      if (row === null) return null
      const user = await findUser(store, row.user_name)
      if (user === null) return null
      const next = await issue(user, row.scope, row.family)
      // The family may have ended while this ran: then what was issued ends with it.
      const alive = await store.db
        .selectFrom('refresh_tokens')
        .select('hash')
        .where('hash', '=', row.hash)
        .executeTakeFirst()
      if (alive !== undefined) return next
      await store.db.deleteFrom('refresh_tokens').where('family', '=', row.family).execute()
      return null
    },
    async verify(token) {
      const payload = await checked(token, publicKey, {
        issuer,
        audience,
        algorithms: [algorithm],
        currentDate: new Date(now()),
      })
      if (payload['typ'] !== 'Bearer') throw new TokenError('kind')
      return { ...callerOf(payload, 'account', audience), expires: payload.exp! * 1000 }
    },
  }
}

const codes: readonly [
  new (...parameters: never[]) => Error,
  ConstructorParameters<typeof TokenError>[0],
][] = [
  [jose.errors.JWTExpired, 'expired'],
  [jose.errors.JOSEAlgNotAllowed, 'algorithm'],
  [jose.errors.JWSSignatureVerificationFailed, 'signature'],
  [jose.errors.JWKSNoMatchingKey, 'unknown_key'],
  [jose.errors.JWKSMultipleMatchingKeys, 'unknown_key'],
]
const claims: Readonly<Record<string, ConstructorParameters<typeof TokenError>[0]>> = {
  iss: 'issuer',
  aud: 'audience',
  nbf: 'not_yet',
  iat: 'not_yet',
}

/** Verifies by jose and translates its errors once. */
export async function checked(
  token: string,
  key: jose.CryptoKey | jose.JWTVerifyGetKey,
  options: jose.JWTVerifyOptions,
): Promise<jose.JWTPayload> {
  try {
    const wanted = { clockTolerance: 5, requiredClaims: ['exp', 'iss', 'sub'], ...options }
    const verified =
      typeof key === 'function'
        ? await jose.jwtVerify(token, key, wanted)
        : await jose.jwtVerify(token, key, wanted)
    const { payload, protectedHeader } = verified
    if (protectedHeader.crit !== undefined) throw new TokenError('malformed')
    return payload
  } catch (error) {
    if (error instanceof TokenError) throw error
    if (error instanceof jose.errors.JWTClaimValidationFailed)
      throw new TokenError(claims[error.claim] ?? 'malformed', { cause: error })
    const known = codes.find(([kind]) => error instanceof kind)
    throw new TokenError(known?.[1] ?? 'malformed', { cause: error })
  }
}

/** Roles as Keycloak writes them: of the realm, and of the resource that we are. */
export function callerOf(payload: jose.JWTPayload, accountClaim: string, resource: string): Caller {
  const roles = new Set<string>()
  const add = (holder: unknown) => {
    const list = (holder as { roles?: unknown } | null | undefined)?.roles
    if (Array.isArray(list)) for (const role of list) if (typeof role === 'string') roles.add(role)
  }
  add(payload['realm_access'])
  const access = payload['resource_access'] as Record<string, unknown> | null | undefined
  if (access !== null && typeof access === 'object' && Object.hasOwn(access, resource))
    add(access[resource])
  const account = payload[accountClaim]
  const single = Array.isArray(account) ? account[0] : account
  const name = payload['preferred_username']
  return {
    subject: typeof name === 'string' ? name : String(payload.sub),
    // Without the claim a caller sees nothing: no supplier has the empty account.
    account: typeof single === 'string' ? single : '',
    roles,
  }
}
