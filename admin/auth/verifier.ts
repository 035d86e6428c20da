/** A token seen before is a look-up: its signature need not be checked again until it expires. */
import { createHash } from 'node:crypto'
import NodeCache from 'node-cache'
import type { Caller, TokenVerifier } from '../ports.ts'
import { TokenError } from './errors.ts'

type Known = Caller & { expires: number }

const maxTokens = 10_000
/** Milliseconds that a clock may be behind. */
const tolerance = 5000

export function cachedVerifier(
  source: { verify(token: string): Promise<Known> },
  now: () => number,
): TokenVerifier {
  const cache = new NodeCache({
    useClones: false,
    maxKeys: maxTokens,
    stdTTL: 300,
    checkperiod: 60,
  })
  return {
    async verify(token) {
      // By digest: a heap dump shows no tokens, and a key has one size.
      const key = createHash('sha256').update(token).digest('base64')
      const known = cache.get<Known>(key)
      if (known !== undefined) {
        if (known.expires + tolerance > now()) return known
        cache.del(key)
        throw new TokenError('expired')
      }
      const caller = await source.verify(token)
      if (cache.getStats().keys < maxTokens) cache.set(key, caller)
      return caller
    },
  }
}
