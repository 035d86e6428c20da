/** Checked access tokens: the reasons to refuse one, and a cache of those that were accepted. */
import { errors } from 'jose'
import NodeCache from 'node-cache'
import type { Caller } from '../http/roles.ts'

const invalid = (title: string) =>
  ({ problem: 'unauthorized', error: 'invalid_token', title }) as const

/** Reasons to refuse a token, with the problem, the RFC 6750 error and the title. Tests and logs use the codes. */
export const tokenErrors = {
  missing: { problem: 'unauthorized', error: null, title: 'A bearer token is required' },
  malformed: invalid('The bearer token is malformed'),
  algorithm: invalid('The algorithm of the signature is not supported'),
  unknown_key: invalid('The key of the signature is not known'),
  signature: invalid('The signature is not valid'),
  expired: invalid('The token has expired'),
  not_yet: invalid('The token is not valid yet'),
  issuer: invalid('The token was issued by another issuer'),
  audience: invalid('The token is for another service'),
  type: invalid('The token is not an access token'),
  claims: invalid('A claim of the token is not valid'),
  forbidden: {
    problem: 'forbidden',
    error: 'insufficient_scope',
    title: 'The caller lacks the role',
  },
  unavailable: {
    problem: 'unavailable',
    error: null,
    title: 'Tokens cannot be verified at the moment',
  },
} as const

export type TokenErrorCode = keyof typeof tokenErrors

/** A token that is refused, or that cannot be checked now. `code` says why. */
export class TokenError extends Error {
  override name = 'TokenError'
  readonly code: TokenErrorCode

  constructor(code: TokenErrorCode, options?: ErrorOptions) {
    super(tokenErrors[code].title, options)
    this.code = code
  }
}

const byClaim: Record<string, TokenErrorCode> = {
  iss: 'issuer',
  aud: 'audience',
  nbf: 'not_yet',
  exp: 'expired',
}

/**
 * Translates errors of jose.
 *
 * @param error anything; `unavailable` if it is of the network, otherwise the fault of the token
 */
export function failureOf(error: unknown): TokenError {
  if (error instanceof TokenError) return error
  const options = { cause: error }
  if (error instanceof errors.JWTExpired) return new TokenError('expired', options)
  if (error instanceof errors.JWTClaimValidationFailed)
    return new TokenError((error.reason !== 'missing' && byClaim[error.claim]) || 'claims', options)
  // the second error: the key of this id is for another algorithm
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JWKSNoMatchingKey)
    return new TokenError('algorithm', options)
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return new TokenError('signature', options)
  return new TokenError('malformed', options)
}

export interface AcceptedToken {
  caller: Caller
  /** Milliseconds since the epoch. */
  expiresAt: number
}

export interface TokenVerifier {
  /** Throws a `TokenError` for anything but a valid access token. */
  verify(token: string): Promise<Caller> | Caller
  /** Counts a refused call, by the code of its error. */
  refused?(code: string): void
}

const maxTokens = 5000
/** Seconds. Tokens of a key that the issuer has withdrawn are accepted at most this much longer. */
const cacheLife = 60
/** Characters. Longer tokens are not cached. */
const maxCachedLength = 4096

/**
 * A cache of verified tokens: a look-up replaces the signature check. `check` throws a TokenError. Failures are not
 * cached, so forged tokens use no memory.
 */
export function cachedVerifier(
  check: (token: string) => Promise<AcceptedToken>,
  now: () => number,
): TokenVerifier & { close(): void } {
  const cache = new NodeCache({ useClones: false, maxKeys: maxTokens, checkperiod: 0 })
  return {
    verify(token): Caller | Promise<Caller> {
      const known = cache.get<AcceptedToken>(token)
      if (known !== undefined && now() < known.expiresAt) return known.caller
      return check(token).then((accepted) => {
        if (token.length <= maxCachedLength) {
          // a full cache is emptied: every entry can be verified again
          if (cache.keys().length >= maxTokens) cache.flushAll()
          const expiresAt = Math.min(accepted.expiresAt, now() + cacheLife * 1000)
          cache.set(token, { caller: accepted.caller, expiresAt })
        }
        return accepted.caller
      })
    },
    close: () => cache.close(),
  }
}
