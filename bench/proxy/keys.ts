/** The CPU time of a no-bid with the keys of endpoints, without them, and of an older checkout. */
import { dirname, resolve } from 'node:path'
import type { Run } from '../harness/bench.ts'
import { firstLine } from '../harness/machine.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, type Service, startService, supplier } from '../harness/service.ts'
import { inTurns, median } from '../harness/statistics.ts'

/** What the fast lane chooses and sends by. */
const keys = (url: string) => ({
  endpoints: [
    { url, weight: 2, zone: 'a' },
    { url: `${url}?second`, zone: 'a' },
    { url: `${url}?third`, priority: 1 },
  ],
  headers: { set: { 'x-openrtb-version': '2.6' }, remove: ['x-debug'] },
  outliers: { errorShare: 0.3, latencyShare: 0.9 },
  healthCheck: { interval: '5s' },
})

/** @param before `main.ts` of an older checkout; empty: it is not compared */
export async function costOfKeys(
  { quick, say, steady }: Pick<Run, 'quick' | 'say' | 'steady'>,
  caller: Caller,
  url: string,
  before: string,
): Promise<Block[]> {
  await using stack = new AsyncDisposableStack()
  const plain = { suppliers: [supplier('bench', url)] }
  const withKeys = {
    node: { zone: 'a' },
    suppliers: [supplier('bench', url, keys(url))],
  }
  const subjects: [name: string, service: Service][] = [
    ['plain', stack.use(await startService(plain))],
    ['with the keys', stack.use(await startService(withKeys))],
  ]
  if (before !== '') {
    const program = resolve(before)
    const commit = firstLine('git', '-C', dirname(program), 'describe', '--always')
    const older = stack.use(await startService(plain, { program }))
    subjects.unshift([`commit ${commit ?? 'unknown'}`, older])
  }
  const ask = (port: number, warm: number, measure: number) =>
    caller.ask({ port, paths: ['/bid/bench?kind=no-bid'], connections: 64, rate: 0, warm, measure })
  for (const [, { proxy }] of subjects) await ask(proxy, 0, quick ? 500 : 12_000)
  const samples = await inTurns(quick ? 1 : 12, subjects, async ([name, service]) => {
    const from = service.cpu()
    const { total, failed } = await ask(service.proxy, 0, quick ? 300 : 2000)
    const us = (service.cpu() - from) / (total + failed)
    say(`  ${name}: ${us.toFixed(2)} us`)
    return us
  })
  const reference = samples.get(subjects[0]!)!
  /** Of the rounds, one by one: what the machine does meanwhile concerns both alike. */
  const difference = (of: readonly number[]) =>
    median(of.map((us, round) => us - reference[round]!))
  return [
    `CPU time of the process for each no-bid, 64 connections, as many requests as it takes. Medians over interleaved rounds of 2 s; differences are medians of the differences of each round. ${steady(subjects[0]![0], reference)}`,
    {
      head: ['', 'us', `more than ${subjects[0]![0]}`],
      rows: [...samples].map(([[name], of]) => [
        ...[name, median(of).toFixed(2), difference(of).toFixed(2)],
      ]),
    },
  ]
}
