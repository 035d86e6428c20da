/** Tokens verified before: a look-up instead of a signature check, for at most a minute. */
import NodeCache from 'node-cache'
import type { Caller, TokenVerifier } from '../ports.ts'
import type { AcceptedToken } from './claims.ts'

const maxTokens = 5000
/** Seconds: a key that the issuer withdrew is obeyed at most this much longer. */
const longest = 60
/** Characters; a longer token is verified each time rather than kept. */
const maxKept = 4096

/** `check` throws TokenError; what it throws is never kept, so forged tokens fill nothing. */
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
        if (token.length <= maxKept) {
          // a full cache starts anew: it holds nothing that cannot be verified again
          if (cache.keys().length >= maxTokens) cache.flushAll()
          const expiresAt = Math.min(accepted.expiresAt, now() + longest * 1000)
          cache.set(token, { caller: accepted.caller, expiresAt })
        }
        return accepted.caller
      })
    },
    close: () => cache.close(),
  }
}
