/** What the embedded issuer signs and verifies. */
import { jwtVerify, SignJWT } from 'jose'
import type { Caller } from '../../ports.ts'
import { type AcceptedToken, failureOf } from '../claims.ts'
import { TokenError } from '../errors.ts'
import type { User } from '../users.ts'
import { algorithm, type SigningKeys } from './keys.ts'

/** Seconds that an access token lives; a family that ends takes no access token with it. */
export const accessLife = 300
export const clientId = 'public-client'
const audience = 'bidweir'
/** Seconds by which the clock of the node that reads a token may be behind that of the node which made it. */
const slack = 5

export interface Issuer {
  sign(user: User, scope: string): Promise<string>
  check(token: string): Promise<AcceptedToken>
}

export function createIssuer(
  keys: SigningKeys,
  realm: { url: () => string; path: string },
  now: () => number,
): Issuer {
  return {
    sign({ name, roles, account }, scope) {
      const at = Math.floor(now() / 1000)
      return new SignJWT({
        typ: 'Bearer',
        azp: clientId,
        scope,
        preferred_username: name,
        realm_access: { roles },
        account,
      })
        .setProtectedHeader({ alg: algorithm, kid: keys.kid, typ: 'JWT' })
        .setIssuer(realm.url())
        .setAudience(audience)
        .setSubject(name)
        .setIssuedAt(at)
        .setNotBefore(at - slack)
        .setExpirationTime(at + accessLife)
        .setJti(crypto.randomUUID())
        .sign(keys.privateKey)
    },
    async check(token) {
      try {
        const { payload } = await jwtVerify(
          token,
          ({ kid }) => {
            const key = keys.find(kid ?? '')
            if (key === undefined) throw new TokenError('unknown_key')
            return key
          },
          {
            algorithms: [algorithm],
            audience,
            currentDate: new Date(now()),
            requiredClaims: ['exp', 'sub', 'iss'],
          },
        )
        // Nodes of one store may listen at different addresses: the realm is what must agree.
        if (!URL.canParse(payload.iss ?? '') || new URL(payload.iss ?? '').pathname !== realm.path)
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
  }
}
