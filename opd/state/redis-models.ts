/** Models in Redis: a stream of deltas by mode, what operators said, and the model that an epoch begins with. */
import type { createClient } from 'redis'
import type { ModelBus } from './exchange.ts'

/** Deltas kept for nodes that come back; older ones are in every snapshot. */
const keptDeltas = 600
const fetchedAtOnce = 100
/** A node that comes later than this after a rollback goes on from its own model. */
const baseLife = 30 * 24 * 3_600_000

/** ARGV: what stands there (or '' for nothing), what shall. */
const swap = `
local is = redis.call('GET', KEYS[1])
if (is or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`

type Client = Pick<ReturnType<typeof createClient>, 'xAdd' | 'xRange' | 'get' | 'set' | 'eval'>

export function modelBus(client: Client, prefix: string): ModelBus {
  const stream = (mode: string) => `${prefix}model:${mode}`
  const baseKey = (mode: string, epoch: number) => `${prefix}model:${mode}:base:${epoch}`
  const controlKey = `${prefix}model:control`
  return {
    async publish(mode, delta) {
      const fields = { data: Buffer.from(delta).toString('base64') }
      await client.xAdd(stream(mode), '*', fields, {
        TRIM: { strategy: 'MAXLEN', strategyModifier: '~', threshold: keptDeltas },
      })
    },
    async fetch(mode, from) {
      const start = from === '0' ? '-' : `(${from}`
      const rows = (await client.xRange(stream(mode), start, '+', {
        COUNT: fetchedAtOnce,
      })) as { id: string; message: Record<string, string> }[]
      const deltas = rows.map(({ id, message }) => ({
        place: id,
        bytes: Buffer.from(message['data'] ?? '', 'base64'),
      }))
      return { deltas, last: rows.at(-1)?.id ?? from }
    },
    control: async () => (await client.get(controlKey)) as string | null,
    async swapControl(old, next) {
      return (
        Number(await client.eval(swap, { keys: [controlKey], arguments: [old ?? '', next] })) === 1
      )
    },
    async putBase(mode, epoch, packed) {
      const expiration = { type: 'PX', value: baseLife } as const
      await client.set(baseKey(mode, epoch), Buffer.from(packed).toString('base64'), { expiration })
    },
    async base(mode, epoch) {
      const text = (await client.get(baseKey(mode, epoch))) as string | null
      return text === null ? null : Buffer.from(text, 'base64')
    },
  }
}
