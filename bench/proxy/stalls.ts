/** What the slowest requests wait for: stalls of the event loop at a fixed rate, and what the main thread did meanwhile. */
import type { Run } from '../harness/bench.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, startService, supplier } from '../harness/service.ts'
import type { Stalls } from './stall-probe.ts'

const rate = 10_000
/** Stalls that are printed one by one. */
const shown = 12

type Stall = Stalls['stalls'][number]

/** The cause that took most of the stall. */
function causeOf({ length, cpu, minor, major }: Stall): string {
  const waited = length - cpu
  const work = cpu - minor - major
  const parts: [string, number][] = [
    ['waits for the processor', waited],
    ['collection of young objects', minor],
    ['full collection', major],
    ['own work', work],
  ]
  return parts.reduce((most, part) => (part[1] > most[1] ? part : most))[0]
}

export async function stallsOfLoop(
  { quick, say }: Pick<Run, 'quick' | 'say'>,
  caller: Caller,
  endpoint: string,
): Promise<Block[]> {
  const probe = new URL('stall-probe.ts', import.meta.url)
  await using service = await startService({ suppliers: [supplier('bench', endpoint)] }, { probe })
  const load = { port: service.proxy, connections: 64, paths: ['/bid/bench'] }
  await caller.ask({ ...load, rate: 0, warm: 0, measure: quick ? 1000 : 20_000 })
  await service.probe<null>()
  const { p50, p99, p999, max, failed } = await caller.ask({
    ...{ ...load, rate, warm: 1000, measure: quick ? 2000 : 20_000 },
  })
  const { stalls, minor, major, ms } = await service.probe<Stalls>()
  say(`  p99.9 ${p999} ms, ${stalls.length} stalls${failed > 0 ? `, ${failed} failed` : ''}`)
  const causes = Map.groupBy(stalls, causeOf)
  const sum = (all: readonly Stall[]) => all.reduce((total, { length }) => total + length, 0)
  const longest = stalls.toSorted((one, other) => other.length - one.length).slice(0, shown)
  const text = (value: number) => value.toFixed(1)
  return [
    `The mix at ${rate} requests a second for ${text(ms / 1000)} s: p50 ${text(p50)}, p99 ${text(p99)}, p99.9 ${text(p999)}, at most ${text(max)} ms. A stall is a time of 2.5 ms and more in which a timer of 1 ms did not run; several responses that are priced together, and collections, are stalls. \`process.threadCpuUsage\` says how much of it the main thread worked: for the rest it waited for the processor, because another thread or process had it.`,
    {
      head: ['collections', 'number', 'ms each', 'share of the time'],
      rows: [
        ['young objects', minor],
        ['full', major],
      ].map(([name, longestOf]) => {
        const { count, ms: took } = longestOf as Stalls['minor']
        const mean = count === 0 ? '' : (took / count).toFixed(2)
        return [name as string, count, mean, `${((100 * took) / ms).toFixed(2)} %`]
      }),
    },
    {
      head: ['most of the stall', 'stalls', 'ms of all', 'longest, ms'],
      rows: [...causes].map(([cause, all]) => [
        ...[cause, all.length, text(sum(all))],
        text(Math.max(...all.map(({ length }) => length))),
      ]),
    },
    'The longest, milliseconds:',
    {
      head: ['after', 'length', 'CPU of the main thread', 'young', 'full', 'most of it'],
      rows: longest.map((stall) => [
        ...[stall.start, stall.length, stall.cpu, stall.minor, stall.major].map(text),
        causeOf(stall),
      ]),
    },
  ]
}
