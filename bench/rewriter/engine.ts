/** The whole engine on bid responses: learner, contexts, bid log and the sums for the reports. Without wins. */

import { join } from 'node:path'
import { openStore } from '../../admin/store/index.ts'
import { createRollup } from '../../admin/store/rollup.ts'
import { drained } from '../../opd/base/slices.ts'
import { opdSchema } from '../../opd/config.ts'
import { createEngine } from '../../opd/engine/engine.ts'
import { LocalBidLog } from '../../opd/state/bid-log.ts'
import { ModelManager } from '../../opd/state/model-manager.ts'
import type { Run } from '../harness/bench.ts'
import { newFolder } from '../harness/child.ts'
import { cpuOf } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { inTurns, median } from '../harness/statistics.ts'
import { bidRequests, bodies } from '../harness/traffic.ts'

const hour = 3_600_000
const log = { info() {}, warn() {}, error() {} }
const now = Date.now
const sizes = [1, 50, 200] as const
const seats = new Set<string>()

async function openEngine(folder: string) {
  const store = await openStore(`sqlite:${join(folder, 'bench.db')}`, { now, log })
  const learners = new ModelManager({ dir: null, attributionWindow: hour / 2, now, log })
  const rollup = createRollup(store, log)
  const engine = createEngine(
    {
      keys: [{ id: 1, secret: Buffer.alloc(32, 7) }],
      attributionWindow: hour / 2,
      contextTtl: 48 * hour,
      integrations: [{ id: 'acme', opd: opdSchema.parse({ enabled: true }), notices: 'win' }],
      rates: null,
      base: 'USD',
    },
    {
      learners,
      bidLog: new LocalBidLog({ ttl: 48 * hour, now, maxBytes: 64 * 1024 * 1024 }),
      observer: rollup.bids,
      shared: null,
      sink: null,
      log,
      now,
      random: Math.random,
    },
  )
  const close = async () => {
    await learners.close()
    await rollup.close()
    await store.close()
  }
  return { engine, close }
}

export async function engineCosts({ quick }: Run): Promise<Block[]> {
  const rounds = quick ? 5 : 45
  using folder = newFolder()
  const { engine, close } = await openEngine(folder.path)
  let next = 0
  const answer = (size: number) => {
    const request = bidRequests[next++ % bidRequests.length]!
    const body = bodies[`bids-${size}`]!
    return drained(
      engine.responsesOf('acme').rewriteInSlices({
        body,
        request: () => request,
        inactiveSeats: seats,
      }),
    )
  }
  /** About 2,000 bids in a round. */
  const callsOf = (size: number) => Math.ceil(2000 / size)
  for (const size of sizes) cpuOf(() => answer(size), 2 * callsOf(size))
  const costs = await inTurns(rounds, sizes, (size) => cpuOf(() => answer(size), callsOf(size)))
  await close()
  const taken = sizes.map((size) => median(costs.get(size)!))
  const further = (taken[2]! - taken[1]!) / (sizes[2] - sizes[1])
  return [
    `CPU microseconds a response, median of ${rounds} interleaved rounds. Each further bid takes ${further.toFixed(1)} us.`,
    {
      head: ['bids', 'bytes', 'us'],
      rows: sizes.map((size, index) => [
        size,
        bodies[`bids-${size}`]!.length,
        taken[index]!.toFixed(1),
      ]),
    },
  ]
}
