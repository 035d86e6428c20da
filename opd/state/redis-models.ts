/** Model deltas in Redis: one stream for each mode. */
import type { createClient } from '@redis/client'
import type { ModelBus } from './model-sync.ts'

/** Deltas kept for nodes that reconnect. Older ones are in every snapshot. */
const maxDeltas = 600
const fetchBatch = 100
type Client = Pick<ReturnType<typeof createClient>, 'xAdd' | 'xRange'>

export function modelBus(client: Client, prefix: string): ModelBus {
  const stream = (mode: string) => `${prefix}model:${mode}`
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
  }
}
