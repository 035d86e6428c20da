/** Access tokens of an OpenID Connect issuer such as Keycloak (CONTRACT 9). */
import { type JWTPayload, jwtVerify } from 'jose'
import type { Caller } from '../../ports.ts'
import type { AcceptedToken } from '../cache.ts'
import { failureOf, TokenError } from '../errors.ts'
import { algorithms, type IssuerKeys } from './keys.ts'

interface ExternalSettings {
  issuer: string
  audience: string
  /** The name of the role `api` at the issuer. */
  role: string
  accountClaim: string
}

/** Tolerated clock skew in seconds. */
const leeway = 5
/** Seconds by which `iat` may be in the future; beyond, one of the clocks is wrong. */
const ahead = 60
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
    for (const each of list.slice(0, maxRoles)) if (typeof each === 'string') roles.add(each)
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
    value = claim.split('.').reduce<unknown>((at, name) => member(at, name), payload)
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
  // OpenID Connect Core 3.1.3.6: only ID tokens have the first two; RFC 7800: possession of a key cannot be proved
  // here
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
          clockTolerance: leeway,
          currentDate: new Date(now()),
          requiredClaims: ['exp', 'sub'],
        },
      )
      const { aud, azp, sub, exp = 0, iat = 0 } = payload
      if (iat > now() / 1000 + ahead) throw new TokenError('not_yet')
      if (![aud].flat().includes(audience) && azp !== audience) throw new TokenError('audience')
      checkType(payload, protectedHeader.typ)
      const subject = textOf(sub)
      if (subject === null) throw new TokenError('claims')
      const caller: Caller = {
        subject: textOf(payload['preferred_username']) ?? subject,
        account: accountOf(payload, accountClaim),
        roles: rolesOf(payload, settings),
      }
      return { caller, expiresAt: (exp + leeway) * 1000 }
    } catch (error) {
      throw failureOf(error)
    }
  }
}
