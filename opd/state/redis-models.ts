/** Models in Redis: for each mode one stream of deltas, and one shared model of two parts under one lease. */
import type { Mode } from '../shared/arms.ts'
import { leaseLife, type ModelBus, type SharedModelHead } from './model-bus.ts'
import type { RedisClient } from './redis-client.ts'

/** Deltas kept for the next node that leads: 12 s of 100 nodes twice over. Older ones are in the shared model. */
const maxDeltas = 6000
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
local seen = { lead == ARGV[1] and 1 or 0 }
for part = 2, 3 do
  local number = redis.call('HGET', KEYS[part], 'number') or '0'
  local head = ''
  if number ~= ARGV[part + 2] then head = redis.call('HGET', KEYS[part], 'head') or '' end
  table.insert(seen, number)
  table.insert(seen, head)
end
return seen`

const share = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'head', ARGV[2], 'model', ARGV[3])
return redis.call('HINCRBY', KEYS[2], 'number', 1)`

// In a Cluster all keys of a mode are on one node, by the text in braces.
const keyOf = (prefix: string, mode: Mode, name: string) => `${prefix}{model:${mode}}${name}`
const streamOf = (prefix: string, mode: Mode) => `${prefix}model:${mode}`

/** Removes the shared model of a mode, and the deltas. */
export async function removeModels(
  client: Pick<RedisClient, 'eval'>,
  prefix: string,
  mode: Mode,
): Promise<void> {
  for (const key of [
    ...['whole', 'curve'].map((name) => keyOf(prefix, mode, name)),
    streamOf(prefix, mode),
  ])
    await client.eval("return redis.call('DEL', KEYS[1])", { keys: [key], arguments: [] })
}

/** `readBytes` reads a field of a hash. */
export function modelBus(
  client: Pick<RedisClient, 'xAdd' | 'xRange' | 'eval'>,
  prefix: string,
  readBytes: (key: string, field: string) => Promise<Uint8Array | null>,
): ModelBus {
  const stream = (mode: Mode) => streamOf(prefix, mode)
  const key = (mode: Mode, name: string) => keyOf(prefix, mode, name)
  const seenPart = (number: string, head: string) => ({
    number: Number(number),
    head: head === '' ? null : (JSON.parse(head) as SharedModelHead),
  })
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
      const keys = ['lease', 'whole', 'curve'].map((name) => key(mode, name))
      const numbers = [String(known.whole), String(known.curve)]
      const [leads, model, modelHead, curve, curveHead] = (await client.eval(look, {
        keys,
        arguments: [node, String(leaseLife), candidate ? '1' : '0', ...numbers],
      })) as [number, string, string, string, string]
      return {
        leads: leads === 1,
        whole: seenPart(model, modelHead),
        curve: seenPart(curve, curveHead),
      }
    },
    async writeModel(mode, part, node, head, bytes) {
      const keys = [key(mode, 'lease'), key(mode, part)]
      const values = [node, JSON.stringify(head), Buffer.from(bytes)]
      return Number(await client.eval(share, { keys, arguments: values as string[] }))
    },
    readModel: (mode, part) => readBytes(key(mode, part), 'model'),
  }
}
