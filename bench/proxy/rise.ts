/**
 * What requests wait for when the rate rises after minutes of little work: V8 may have begun a full collection by then that makes
 * the heap small. Measured with and without the option of Node.js that forbids it.
 */
import type { Run } from '../harness/bench.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, startService, supplier } from '../harness/service.ts'
import { supplierIds } from './peers.ts'
import type { Stalls } from './stall-probe.ts'

/** Requests a second, and milliseconds of each: little work, then a window that is measured. */
const little = [
  { rate: 1000, ms: 50_000 },
  { rate: 3000, ms: 25_000 },
]
const risen = { rate: 10_000, ms: 4000 }

const variants: Readonly<Record<string, readonly string[]>> = {
  'as `npm start` and the image': ['--no-memory-reducer'],
  'without `--no-memory-reducer`': [],
}

export async function riseOfRate(
  { quick, say }: Pick<Run, 'quick' | 'say'>,
  caller: Caller,
  endpoint: string,
): Promise<Block[]> {
  const probe = new URL('stall-probe.ts', import.meta.url)
  const suppliers = supplierIds.map((id) => supplier(id, endpoint))
  const [rises, shorter] = quick ? [1, 50] : [4, 1]
  const rows: (string | number)[][] = []
  for (const [name, nodeOptions] of Object.entries(variants)) {
    await using service = await startService({ suppliers }, { probe, nodeOptions })
    const ask = (rate: number, measure: number) =>
      caller.ask({
        ...{ port: service.proxy, connections: 64, paths: ['/bid/bench'] },
        ...{ rate, warm: 0, measure: measure / shorter },
      })
    await ask(0, 20_000)
    for (let rise = 1; rise <= rises; rise++) {
      for (const { rate, ms } of little) await ask(rate, ms)
      await service.probe<null>()
      const { p50, p99, p999, max, failed } = await ask(risen.rate, risen.ms)
      const { minor, major } = await service.probe<Stalls>()
      const row = [p50, p99, p999, max, major.ms, minor.ms].map((value) => value.toFixed(1))
      say(`  ${name}: ${row.join(', ')}${failed > 0 ? `, ${failed} failed` : ''}`)
      rows.push([name, rise, ...row.slice(0, 4), major.count, row[4]!, minor.count, row[5]!])
    }
  }
  const phases = little.map(({ rate, ms }) => `${ms / 1000} s at ${rate} requests a second`)
  return [
    `bidweir with 3,000 suppliers, one of which is asked, the mix: after 20 s of full load, each time ${phases.join(', then ')}, and then ${risen.ms / 1000} s at ${risen.rate}, which are measured. Milliseconds since a request was due, and of collections by V8 in that time.`,
    {
      head: [
        ...['', 'rise', 'p50', 'p99', 'p99.9', 'longest'],
        ...['full collections', 'ms of all', 'of young objects', 'ms of all'],
      ],
      rows,
    },
  ]
}
