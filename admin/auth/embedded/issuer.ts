/** The embedded issuer: its signing keys, and its access and ID tokens. */
import {
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
  type JWTHeaderParameters,
  jwtVerify,
  SignJWT,
} from 'jose'
import { sql } from 'kysely'
import type { Caller } from '../../http/roles.ts'
import type { Store } from '../../store/index.ts'
import { type AcceptedToken, failureOf, TokenError } from '../tokens.ts'
import type { User } from '../users.ts'
import type { Session } from './refresh-tokens.ts'

export const algorithm = 'ES256'

export interface SigningKeys {
  /** The oldest key signs, so that all nodes use the same one. */
  readonly kid: string
  readonly privateKey: CryptoKey
  find(kid: string): CryptoKey | undefined
  /** RFC 7517 5: public members only. */
  jwks(): { keys: JWK[] }
}

/**
 * The keys are generated once and stored in the database: they are the same on every node.
 *
 * @param store of all nodes
 * @throws if the database cannot be read
 */
export async function openKeys(store: Pick<Store, 'db' | 'postgres'>): Promise<SigningKeys> {
  const rows = await store.db.transaction().execute(async (trx) => {
    // Two nodes that start at the same time generate one key.
    if (store.postgres) await sql`select pg_advisory_xact_lock(4217002)`.execute(trx)
    const known = await trx
      .selectFrom('signing_keys')
      .selectAll()
      .orderBy('created_at')
      .orderBy('kid')
      .execute()
    if (known.length > 0) return known
    const { privateKey } = await generateKeyPair(algorithm, { extractable: true })
    const row = {
      kid: crypto.randomUUID(),
      private_jwk: JSON.stringify(await exportJWK(privateKey)),
      created_at: Date.now(),
    }
    await trx.insertInto('signing_keys').values(row).execute()
    return [row]
  })
  const imported = async (jwk: JWK) => (await importJWK(jwk, algorithm)) as CryptoKey
  const keys = new Map<string, CryptoKey>()
  const shown: JWK[] = []
  for (const { kid, private_jwk } of rows) {
    const { d: _, ...open } = JSON.parse(private_jwk) as JWK
    const jwk = { ...open, kid, alg: algorithm, use: 'sig' }
    shown.push(jwk)
    keys.set(kid, await imported(jwk))
  }
  const { kid, private_jwk } = rows[0]!
  const privateKey = await imported(JSON.parse(private_jwk))
  return { kid, privateKey, find: (id) => keys.get(id), jwks: () => ({ keys: shown }) }
}

/** Lifetime of an access token in seconds. The end of a session does not revoke its access tokens. */
export const accessLife = 300
export const clientId = 'public-client'
const audience = 'bidweir'
/** Seconds that the clock of the verifying node may be behind that of the issuing node. */
const clockSkew = 5

export interface Issuer {
  /** An access token; `url` is the issuer URL as the client reached it. */
  signAccessToken(user: User, scope: string, url: string): Promise<string>
  /** An ID token (OpenID Connect Core 2). */
  signIdToken(session: Omit<Session, 'token'>, url: string): Promise<string>
  /**
   * Verifies an access token of this realm.
   *
   * @param token any text
   * @throws TokenError with the reason, if it is anything else
   */
  check(token: string): Promise<AcceptedToken>
  /**
   * The session of an ID token of this realm, expired or not (OpenID Connect RP-Initiated Logout 2); null for any
   * other text.
   */
  sessionOf(idToken: string): Promise<string | null>
}

/**
 * Issues and verifies the tokens of a realm.
 *
 * @param path of the realm, the same on every node of a store
 * @param now milliseconds since the epoch
 */
export function createIssuer(keys: SigningKeys, path: string, now: () => number): Issuer {
  const signJwt = (claims: Record<string, unknown>, url: string, audience: string, user: User) => {
    const seconds = Math.floor(now() / 1000)
    return new SignJWT({ azp: clientId, preferred_username: user.name, ...claims })
      .setProtectedHeader({ alg: algorithm, kid: keys.kid, typ: 'JWT' })
      .setIssuer(url)
      .setAudience(audience)
      .setSubject(user.name)
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + accessLife)
      .setJti(crypto.randomUUID())
      .sign(keys.privateKey)
  }
  const keyOf = ({ kid }: JWTHeaderParameters) => {
    const key = keys.find(kid ?? '')
    if (key === undefined) throw new TokenError('unknown_key')
    return key
  }
  return {
    signAccessToken(user, scope, url) {
      const { roles, account } = user
      const nbf = Math.floor(now() / 1000) - clockSkew
      const claims = { typ: 'Bearer', nbf, scope, realm_access: { roles }, account }
      return signJwt(claims, url, audience, user)
    },
    signIdToken({ id, user, authTime }, url) {
      const claims = { typ: 'ID', sid: id, auth_time: Math.floor(authTime / 1000) }
      return signJwt(claims, url, clientId, user)
    },
    async check(token) {
      try {
        const { payload } = await jwtVerify(token, keyOf, {
          algorithms: [algorithm],
          audience,
          currentDate: new Date(now()),
          requiredClaims: ['exp', 'sub', 'iss'],
        })
        // Clients reach the nodes of one store at different hosts and under different prefixes, so that only the path
        // of the realm must match.
        const iss: unknown = payload.iss
        // URL reads an array with one element as a text
        if (typeof iss !== 'string' || !URL.canParse(iss) || !new URL(iss).pathname.endsWith(path))
          throw new TokenError('issuer')
        if (payload['typ'] !== 'Bearer') throw new TokenError('type')
        const { roles } = payload['realm_access'] as { roles: string[] }
        const caller: Caller = {
          subject: payload.sub ?? '',
          account: String(payload['account']),
          roles: new Set(roles),
        }
        return { caller, expiresAt: (payload.exp ?? 0) * 1000 }
      } catch (error) {
        throw failureOf(error)
      }
    },
    async sessionOf(idToken) {
      try {
        const { payload } = await jwtVerify(idToken, keyOf, {
          algorithms: [algorithm],
          audience: clientId,
          // At the epoch, no token has expired.
          currentDate: new Date(0),
        })
        const { typ, sid } = payload
        return typ === 'ID' && typeof sid === 'string' ? sid : null
      } catch {
        // A token that does not verify has no session.
        return null
      }
    },
  }
}
