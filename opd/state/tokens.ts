/** The token buckets of suppliers that nodes share in Redis, or the processes of one node in the memory of the first. */
import { demandMemory, type SharedTokens, type TokenGrant, type TokenRequest } from '../ports.ts'

/** Evaluates a script with one key; undefined: Redis is away. */
type Evaluate = (script: string, key: string, values: string[]) => Promise<unknown>

/** A row is `tokens time demand`. A bucket that is not known yet is full. */
const script = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local grants = {}
for i = 1, #ARGV, 5 do
  local rate, depth = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local wanted, arrived = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local tokens, at, demand = depth, now, 0
  local row = redis.call('HGET', KEYS[1], ARGV[i])
  if row then
    local a, b, c = string.match(row, '(%S+) (%S+) (%S+)')
    tokens, at, demand = tonumber(a), tonumber(b), tonumber(c)
  end
  local elapsed = math.max(0, now - at)
  tokens = math.min(depth, tokens + elapsed * rate / 1000)
  demand = demand * math.exp(-elapsed / ${demandMemory}) + arrived
  local granted = math.min(wanted, math.max(0, tokens))
  tokens = math.min(depth, tokens - granted)
  redis.call('HSET', KEYS[1], ARGV[i], string.format('%.6f %d %.6f', tokens, now, demand))
  grants[#grants + 1] = string.format('%.6f %.6f', granted, demand)
end
redis.call('PEXPIRE', KEYS[1], 60000)
return grants`

/** Suppliers of one call: Redis runs nothing else meanwhile. */
const batch = 200

/** By the clock of Redis, because the clocks of nodes may differ. */
export function redisTokens(evaluate: Evaluate, key: string): SharedTokens {
  async function askBatch(requests: readonly TokenRequest[]): Promise<TokenGrant[] | null> {
    const values = requests.flatMap(({ supplier, rate, depth, wanted, arrived }) => [
      supplier,
      ...[rate, depth, wanted, arrived].map(String),
    ])
    const grants = await evaluate(script, key, values)
    if (!Array.isArray(grants)) return null
    return grants.map((text) => {
      const [tokens, demand] = String(text).split(' ').map(Number)
      return { tokens: tokens!, demand: demand! }
    })
  }
  return {
    async ask(requests) {
      const grants: TokenGrant[] = []
      for (let from = 0; from < requests.length; from += batch) {
        const some = await askBatch(requests.slice(from, from + batch))
        if (some === null) return null
        grants.push(...some)
      }
      return grants
    },
  }
}

interface Bucket {
  tokens: number
  updatedAt: number
  demand: number
}

/**
 * Buckets of this process alone. A bucket that is not known yet is full.
 *
 * @param now milliseconds of a monotonic clock
 */
export function localTokens(now: () => number = () => performance.now()): SharedTokens {
  const buckets = new Map<string, Bucket>()
  function grant(
    { supplier, rate, depth, wanted, arrived }: TokenRequest,
    time: number,
  ): TokenGrant {
    const bucket = buckets.get(supplier) ?? { tokens: depth, updatedAt: time, demand: 0 }
    const elapsed = time - bucket.updatedAt
    const tokens = Math.min(depth, bucket.tokens + (elapsed * rate) / 1000)
    const granted = Math.min(wanted, Math.max(0, tokens))
    const demand = bucket.demand * Math.exp(-elapsed / demandMemory) + arrived
    buckets.set(supplier, { tokens: Math.min(depth, tokens - granted), updatedAt: time, demand })
    return { tokens: granted, demand }
  }
  return {
    async ask(requests) {
      const time = now()
      return requests.map((request) => grant(request, time))
    },
  }
}
