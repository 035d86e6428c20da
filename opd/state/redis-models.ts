/** Models in Redis: one stream of deltas for each mode, and one shared model. */
import type { RedisClient } from './redis-client.ts'
import { leaseLife, type ModelBus, type SharedModelHead } from './shared-model.ts'

/** Deltas kept for the next node that leads: 12 s of 100 nodes twice over. Older ones are in the shared model. */
const maxDeltas = 1200
const fetchBatch = 100

const look = `
local lead = redis.call('GET', KEYS[1])
if ARGV[3] == '1' and (not lead or lead == ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  lead = ARGV[1]
elseif ARGV[3] == '0' and lead == ARGV[1] then
  redis.call('DEL', KEYS[1])
  lead = false
end
local number = redis.call('HGET', KEYS[2], 'number') or '0'
local head = ''
if number ~= ARGV[4] then head = redis.call('HGET', KEYS[2], 'head') or '' end
return { lead == ARGV[1] and 1 or 0, number, head }`

const share = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'head', ARGV[2], 'model', ARGV[3])
return redis.call('HINCRBY', KEYS[2], 'number', 1)`

/** `readBytes` reads a field of a hash. */
export function modelBus(
  client: Pick<RedisClient, 'xAdd' | 'xRange' | 'eval'>,
  prefix: string,
  readBytes: (key: string, field: string) => Promise<Uint8Array | null>,
): ModelBus {
  const stream = (mode: string) => `${prefix}model:${mode}`
  // In a Cluster both keys are on one node, by the text in braces.
  const keys = (mode: string) => [`${prefix}{model:${mode}}lease`, `${prefix}{model:${mode}}shared`]
  return {
    async publish(mode, delta) {
      const fields = { data: Buffer.from(delta).toString('base64') }
      await client.xAdd(stream(mode), '*', fields, {
        TRIM: { strategy: 'MAXLEN', strategyModifier: '~', threshold: maxDeltas },
      })
    },
    async fetch(mode, from) {
      const start = from === '0' ? '-' : `(${from}`
      const rows = (await client.xRange(stream(mode), start, '+', {
        COUNT: fetchBatch,
      })) as { id: string; message: Record<string, string> }[]
      const deltas = rows.map(({ id, message }) => ({
        place: id,
        bytes: Buffer.from(message['data'] ?? '', 'base64'),
      }))
      return { deltas, last: rows.at(-1)?.id ?? from }
    },
    async look(mode, node, candidate, known) {
      const values = [node, String(leaseLife), candidate ? '1' : '0', String(known)]
      const [leads, number, head] = (await client.eval(look, {
        keys: keys(mode),
        arguments: values,
      })) as [number, string, string]
      return {
        leads: leads === 1,
        number: Number(number),
        head: head === '' ? null : (JSON.parse(head) as SharedModelHead),
      }
    },
    async writeModel(mode, node, head, bytes) {
      const values = [node, JSON.stringify(head), Buffer.from(bytes)]
      return Number(await client.eval(share, { keys: keys(mode), arguments: values as string[] }))
    },
    readModel: (mode) => readBytes(keys(mode)[1]!, 'model'),
  }
}
