/** A cache of verified tokens, for at most a minute each: a look-up replaces the signature check. */
import NodeCache from 'node-cache'
import type { Caller, TokenVerifier } from '../ports.ts'

export interface AcceptedToken {
  caller: Caller
  /** Milliseconds since the epoch. */
  expiresAt: number
}

const maxTokens = 5000
/** Seconds. A key that the issuer has withdrawn is accepted at most this much longer. */
const longest = 60
/** Characters. Longer tokens are not cached. */
const maxKept = 4096

/** `check` throws a TokenError. Failures are not cached, so forged tokens use no memory. */
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
          // a full cache is emptied: every entry can be verified again
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
