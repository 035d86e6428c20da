/** The accepted token, and the translation of jose errors, for both kinds of issuers. */
import { errors } from 'jose'
import type { Caller } from '../ports.ts'
import { TokenError, type TokenErrorCode } from './errors.ts'

export interface AcceptedToken {
  caller: Caller
  /** Milliseconds since the epoch. */
  expiresAt: number
}

const byClaim: Record<string, TokenErrorCode> = {
  iss: 'issuer',
  aud: 'audience',
  nbf: 'not_yet',
  exp: 'expired',
}

export function failureOf(error: unknown): TokenError {
  if (error instanceof TokenError) return error
  const options = { cause: error }
  if (error instanceof errors.JWTExpired) return new TokenError('expired', options)
  if (error instanceof errors.JWTClaimValidationFailed)
    return new TokenError((error.reason !== 'missing' && byClaim[error.claim]) || 'claims', options)
  if (error instanceof errors.JOSEAlgNotAllowed) return new TokenError('algorithm', options)
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return new TokenError('signature', options)
  return new TokenError('malformed', options)
}
