/** The token buckets that the processes of one node share, in the memory of the first: what redis-tokens.ts does in Redis. */
import { demandMemory, type SharedTokens, type TokenGrant, type TokenRequest } from '../ports.ts'

interface Bucket {
  tokens: number
  at: number
  demand: number
}

/** `now`: milliseconds of a monotonic clock. A bucket that is not known yet is full. */
export function localTokens(now: () => number = () => performance.now()): SharedTokens {
  const buckets = new Map<string, Bucket>()
  function grant({ supplier, rate, depth, wanted, arrived }: TokenRequest, at: number): TokenGrant {
    const bucket = buckets.get(supplier) ?? { tokens: depth, at, demand: 0 }
    const elapsed = at - bucket.at
    const tokens = Math.min(depth, bucket.tokens + (elapsed * rate) / 1000)
    const granted = Math.min(wanted, Math.max(0, tokens))
    const demand = bucket.demand * Math.exp(-elapsed / demandMemory) + arrived
    buckets.set(supplier, { tokens: Math.min(depth, tokens - granted), at, demand })
    return { tokens: granted, demand }
  }
  return {
    async ask(requests) {
      const at = now()
      return requests.map((request) => grant(request, at))
    },
  }
}
