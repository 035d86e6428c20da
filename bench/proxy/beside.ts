/** Latency at a fixed rate while the node does other work: scrapes of its metrics, reloads of its configuration. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Run } from '../harness/bench.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, type Service, startService, supplier } from '../harness/service.ts'
import { inTurns, medians } from '../harness/statistics.ts'
import { supplierIds } from './peers.ts'

/** Requests a second. */
const rates = [3000, 10_000]
/** Milliseconds between two scrapes or reloads. */
const interval = 1000

type Work = (service: Service, round: number) => unknown

/** The configuration of the service; the timeout of one supplier changes with `round`. */
const configOf = (endpoint: string, round: number) => ({
  suppliers: supplierIds.map((id, index) =>
    supplier(id, endpoint, index === 1 ? { timeout: `${5000 + round}ms` } : {}),
  ),
})

export async function besideOtherWork(
  { quick, say }: Pick<Run, 'quick' | 'say'>,
  caller: Caller,
  endpoint: string,
): Promise<Block[]> {
  await using service = await startService(configOf(endpoint, 0))
  let reloads = 0
  const works: Record<string, Work> = {
    'no other work': () => {},
    'a scrape of /metrics each second': () => service.metrics(),
    'a reload each second, one of 3,000 suppliers changed': () =>
      service.reload(configOf(endpoint, ++reloads)),
  }
  const load = { port: service.proxy, paths: ['/bid/bench'], connections: 64 }
  await caller.ask({ ...load, rate: 0, warm: 0, measure: quick ? 1000 : 15_000 })
  const cases = rates.flatMap((rate) => Object.keys(works).map((name) => ({ rate, name })))
  const samples = await inTurns(quick ? 1 : 5, cases, async ({ rate, name }, round) => {
    let isOver = false
    const others = (async () => {
      for (; !isOver; await wait(interval)) await works[name]!(service, round)
    })()
    const measure = quick ? 500 : 4000
    const { p50, p99, p999, failed } = await caller.ask({ ...load, rate, warm: 500, measure })
    isOver = true
    await others
    say(
      `  ${rate}/s, ${name}: ${p50} / ${p99} / ${p999} ms${failed > 0 ? `, ${failed} failed` : ''}`,
    )
    return { p50, p99, p999, failed }
  })
  const ms = (value: number) => value.toFixed(1)
  return [
    `bidweir with 3,000 suppliers, one of which is asked, the mix. Medians over rounds, milliseconds since a request was due.`,
    {
      head: ['a second', 'beside', 'p50', 'p99', 'p99.9', 'failed'],
      rows: [...samples].map(([{ rate, name }, all]) => {
        const { p50, p99, p999, failed } = medians(all)
        return [rate, name, ms(p50), ms(p99), ms(p999), failed]
      }),
    },
  ]
}
