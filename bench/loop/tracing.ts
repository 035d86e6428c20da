/** What the spans of OpenTelemetry cost while no SDK is registered: beside a service whose code for them is taken out. */
import type { Run } from '../harness/bench.ts'
import { type Block, measured } from '../harness/report.ts'
import {
  type Service,
  startCaller,
  startOrigin,
  startService,
  supplier,
} from '../harness/service.ts'
import { inTurns, median, quantile } from '../harness/statistics.ts'

export async function tracingOff({ quick, say }: Run): Promise<Block[]> {
  const [rounds, requests] = quick ? [4, 500] : [40, 1500]
  await using origin = await startOrigin()
  await using caller = startCaller()
  const config = { suppliers: [supplier('mix', origin.url)] }
  const hook = (name: string) => ({ probe: new URL(name, import.meta.url) })
  await using off = await startService(config, hook('without-tracing.ts?keep'))
  await using without = await startService(config, hook('without-tracing.ts'))
  async function cost({ proxy, cpu }: Service): Promise<number> {
    const job = { port: proxy, paths: ['/bid/mix'], connections: 8, rate: 0, warm: 0 }
    const before = cpu()
    await caller.ask({ ...job, measure: 600_000, most: requests })
    const us = (cpu() - before) / requests
    say(`  ${proxy === off.proxy ? 'off' : 'without'} ${us.toFixed(1)} us`)
    return us
  }
  // The first requests compile; they are not what is measured.
  await inTurns(2, [off, without], cost)
  const costs = await inTurns(rounds, [off, without], cost)
  const ratios = costs.get(off)!.map((us, round) => us / costs.get(without)![round]!)
  const at = (share: number) => quantile(ratios, share).toFixed(3)
  return [
    `CPU time of all threads, ${rounds} rounds of ${requests} requests to each, in turn.`,
    measured([
      ['CPU of a request, no SDK registered', `${median(costs.get(off)!).toFixed(1)} us`],
      ['with the code of spans taken out', `${median(costs.get(without)!).toFixed(1)} us`],
      ['ratio: median (quartiles) of the rounds', `${at(0.5)} (${at(0.25)} to ${at(0.75)})`],
    ]),
  ]
}
