/** The CPU time of two processes that share the listener (`proxy.workers: 2`), beside one. */
import type { Run } from '../harness/bench.ts'
import { cpu, tree } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, type Service, startService, supplier } from '../harness/service.ts'
import { inTurns, median } from '../harness/statistics.ts'

/** Requests a second for each process: the load of the machine is the same for each. */
const perProcess = 1500

/** CPU microseconds and requests of each process. */
type Sample = { cost: number; requests: number }[]

const requestLine = /^bidweir_worker_requests_total\{worker="(\d+)"\} (\d+)$/gm

async function requestsOf(service: Service): Promise<number[]> {
  const text = await service.metrics()
  return [...text.matchAll(requestLine)].map(([, , count]) => Number(count))
}

type Load = { rate: number; connections: number; measure: number; most?: number }

async function measure(service: Service, caller: Caller, load: Load) {
  const pids = tree(service.pid)
  const before = await requestsOf(service)
  const cpuBefore = pids.map((pid) => cpu([pid]))
  const outcome = await caller.ask({ port: service.proxy, paths: ['/bid/bench'], warm: 0, ...load })
  const cpuAfter = pids.map((pid) => cpu([pid]))
  const after = await requestsOf(service)
  const requests = before.length > 1 ? after.map((n, index) => n - before[index]!) : [outcome.count]
  const sample: Sample = requests.map((count, index) => ({
    cost: (cpuAfter[index]! - cpuBefore[index]!) / Math.max(1, count),
    requests: count,
  }))
  return { sample, failed: outcome.failed }
}

export async function twoProcesses(
  { quick, say }: Omit<Run, 'options'>,
  caller: Caller,
  endpoint: string,
): Promise<Block[]> {
  const start = (workers: number) =>
    startService({
      proxy: { listen: '127.0.0.1:0', workers },
      suppliers: [supplier('bench', endpoint)],
    })
  await using one = await start(1)
  await using two = await start(2)
  const subjects = [
    { service: one, processes: 1 },
    { service: two, processes: 2 },
  ] as const
  // Each process is warmed up with as many requests, and measured at the same rate.
  const most = quick ? 20_000 : 100_000
  for (const { service, processes } of subjects) {
    const load = { rate: 0, connections: 64, measure: 40_000 }
    await measure(service, caller, { ...load, most: most * processes })
  }
  const samples = await inTurns(quick ? 3 : 9, subjects, async ({ service, processes }) => {
    const load = { rate: perProcess * processes, connections: 32 * processes }
    const { sample, failed } = await measure(service, caller, {
      ...{ ...load, measure: quick ? 1000 : 2500 },
    })
    const text = sample.map(({ cost, requests }) => `${cost.toFixed(1)} us x ${requests}`)
    say(`  ${text.join(', ')}${failed > 0 ? `, ${failed} failed` : ''}`)
    return sample.map(({ cost }) => cost)
  })
  const [ofOne, ofTwo] = subjects.map((subject) => samples.get(subject)!) as [
    number[][],
    number[][],
  ]
  const alone = median(ofOne.map(([cost]) => cost!))
  const both = [0, 1].map((index) => median(ofTwo.map((costs) => costs[index]!)))
  const ratios = ofTwo.map((costs, round) =>
    costs.reduce((sum, cost) => sum + ofOne[round]![0]! / cost, 0),
  )
  return [
    `1,500 requests a second and 32 connections for each process. CPU of each process over its requests. A process is bound by one core: n processes of cost c carry the sum of 1 / c. The source and the supplier take cores, too, so throughput is computed from CPU time.`,
    {
      head: ['process', 'CPU us/request', 'x one process'],
      rows: [
        ['workers: 1', alone.toFixed(1), '1.00'],
        ...both.map((cost, index) => [
          ...[`workers: 2, process ${index}`, cost.toFixed(1), (cost / alone).toFixed(2)],
        ]),
      ],
    },
    `Two processes on two cores carry ${median(ratios).toFixed(2)} x of one (median over rounds; ${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}).`,
  ]
}
