/** What the spans of OpenTelemetry cost while no SDK is registered: beside a service whose code for them is taken out. */
import type { Run } from '../harness/bench.ts'
import { type Block, measured } from '../harness/report.ts'
import {
  type Service,
  startOrigin,
  startService,
  startSource,
  supplier,
} from '../harness/service.ts'
import { median } from '../harness/statistics.ts'

export async function tracingOff({ quick, say }: Run): Promise<Block[]> {
  const [rounds, requests] = quick ? [4, 500] : [40, 1500]
  const origin = await startOrigin()
  const config = { suppliers: [supplier('mix', origin.url)] }
  const source = startSource()
  const hook = (name: string) => ({ probe: new URL(name, import.meta.url) })
  const off = await startService(config, hook('without-tracing.ts?keep'))
  const without = await startService(config, hook('without-tracing.ts'))
  async function cost({ proxy, cpu }: Service): Promise<number> {
    const job = { port: proxy, paths: ['/bid/mix'], connections: 8, rate: 0, warm: 0 }
    const before = cpu()
    await source.ask({ ...job, measure: 600_000, most: requests })
    return (cpu() - before) / requests
  }
  // The first requests compile; they are not what is measured.
  for (const service of [off, without, off, without]) await cost(service)
  const costs: [off: number, without: number][] = []
  for (let round = 0; round < rounds; round++) {
    // who is first changes, so that a drift of the machine is in both
    const first = round % 2 === 0
    const [a, b] = [await cost(first ? off : without), await cost(first ? without : off)]
    costs.push(first ? [a, b] : [b, a])
    say(`  off ${costs.at(-1)![0].toFixed(1)} us, without ${costs.at(-1)![1].toFixed(1)} us`)
  }
  await Promise.all([off.stop(), without.stop(), source.close(), origin.close()])
  const ratios = costs.map(([on, removed]) => on / removed).sort((one, other) => one - other)
  const at = (share: number) => ratios[Math.floor(share * (ratios.length - 1))]!.toFixed(3)
  return [
    `CPU time of all threads, ${rounds} rounds of ${requests} requests to each, in turn.`,
    measured([
      ['CPU of a request, no SDK registered', `${median(costs.map(([on]) => on)).toFixed(1)} us`],
      ['with the code of spans taken out', `${median(costs.map(([, out]) => out)).toFixed(1)} us`],
      ['ratio: median (quartiles) of the rounds', `${at(0.5)} (${at(0.25)} to ${at(0.75)})`],
    ]),
  ]
}
