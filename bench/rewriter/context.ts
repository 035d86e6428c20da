/** What a bid costs beside its bytes and its price: the context, and the entry of the bid log. */

import { createContextCodec, Nonces } from '../../opd/pricing/context.ts'
import { LocalBidLog } from '../../opd/state/bid-log.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import type { Run } from '../harness/bench.ts'
import { cpuOf } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { inTurns, median } from '../harness/statistics.ts'

const hour = 3_600_000
const now = () => 1_800_000_000_000

const codec = createContextCodec([{ id: 1, secret: Buffer.alloc(32, 7) }], 48 * hour, new Nonces())
const bidLog = new LocalBidLog({ ttl: 48 * hour, now, maxBytes: 32 * 1024 * 1024 })

const record: DecisionRecord = {
  id: codec.nextId(),
  bidId: '5f1c7a2e-8a0b-4d53-9d2c-0a7cbb1e5f11',
  supplier: 'acme',
  mode: 'revenue',
  via: 'proxy',
  arm: 'treated',
  propensity: 0.97,
  inBa: '2.15',
  outBa: '1.935',
  currency: 'USD',
  decidedAt: now(),
  modelVersion: 1,
  publisher: 'pub-17',
  domain: 'news.example',
  trains: true,
  features: new Uint8Array(88).fill(3),
  winIn: 0.4,
  winOut: 0.3,
}
const { text } = codec.encode(record)

const subjects: Readonly<Record<string, () => unknown>> = {
  'context, encode': () => {
    record.id = codec.nextId()
    return codec.encode(record)
  },
  'context, decode': () => codec.decode(text, record.bidId, now()),
  'bid log, put': () => bidLog.put(record),
}

export async function contextCosts({ quick }: Run): Promise<Block[]> {
  const [rounds, calls] = quick ? [3, 2000] : [9, 20_000]
  const costs = await inTurns(rounds, Object.keys(subjects), (name) =>
    cpuOf(subjects[name]!, calls),
  )
  return [
    `CPU microseconds a call, median of ${rounds} interleaved rounds. A context has ${text.length} characters.`,
    {
      head: ['what', 'us'],
      rows: [...costs].map(([name, taken]) => [name, median(taken).toFixed(2)]),
    },
  ]
}
