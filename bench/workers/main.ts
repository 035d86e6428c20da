/** `npm run bench:workers`: what a second process adds; about 2 minutes. */
import { bench, type Run } from '../harness/bench.ts'
import type { Child } from '../harness/child.ts'
import { cpu, tree } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import {
  type Service,
  startOrigin,
  startService,
  startSource,
  supplier,
} from '../harness/service.ts'
import type { Job, Outcome } from '../harness/source.ts'
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

async function measure(service: Service, source: Child<Job, Outcome>, job: Partial<Job>) {
  const pids = tree(service.pid)
  const before = await requestsOf(service)
  const cpuBefore = pids.map((pid) => cpu([pid]))
  const outcome = await source.ask({
    ...{ port: service.proxy, paths: ['/bid/bench'], connections: 64, rate: 0 },
    ...{ warm: 0, measure: 3000, watch: [pids], ...job },
  })
  const cpuAfter = pids.map((pid) => cpu([pid]))
  const after = await requestsOf(service)
  const requests = before.length > 1 ? after.map((n, at) => n - before[at]!) : [outcome.count]
  const sample: Sample = requests.map((count, at) => ({
    cost: (cpuAfter[at]! - cpuBefore[at]!) / Math.max(1, count),
    requests: count,
  }))
  return { sample, failed: outcome.failed }
}

async function speed(run: Run): Promise<Block[]> {
  const origin = await startOrigin()
  const source = startSource()
  const suppliers = [supplier('bench', origin.url)]
  const service = (workers: number) =>
    startService({ proxy: { listen: '127.0.0.1:0', workers }, suppliers })
  const one = await service(1)
  const two = await service(2)
  try {
    const most = run.quick ? 20_000 : 100_000
    const subjects = [
      { service: one, processes: 1 },
      { service: two, processes: 2 },
    ]
    // Each process is warmed up with as many requests, and measured at the same rate.
    for (const { service, processes } of subjects)
      await measure(service, source, { most: most * processes, measure: 40_000 })
    const samples = await inTurns(run.quick ? 3 : 9, subjects, async ({ service, processes }) => {
      const load = { rate: perProcess * processes, connections: 32 * processes }
      const window = { measure: run.quick ? 1000 : 2500 }
      const { sample, failed } = await measure(service, source, { ...load, ...window })
      const text = sample.map(({ cost, requests }) => `${cost.toFixed(1)} us x ${requests}`)
      run.say(`  ${text.join(', ')}${failed > 0 ? `, ${failed} failed` : ''}`)
      return sample
    })
    const alone = median(samples.get(subjects[0]!)!.map(([sample]) => sample!.cost))
    const both = [0, 1].map((at) =>
      median(samples.get(subjects[1]!)!.map((sample) => sample[at]!.cost)),
    )
    const ratios = samples.get(subjects[1]!)!.map((sample, round) => {
      const { cost } = samples.get(subjects[0]!)![round]![0]!
      return sample.reduce((sum, each) => sum + cost / each.cost, 0)
    })
    return [
      'CPU of each process over its requests. A process is bound by one core: n processes of cost c carry the sum of 1 / c.',
      {
        head: ['process', 'CPU us/request', 'x one process'],
        rows: [
          ['workers: 1', alone.toFixed(1), '1.00'],
          ...both.map((cost, at) => [
            `workers: 2, process ${at}`,
            cost.toFixed(1),
            (cost / alone).toFixed(2),
          ]),
        ],
      },
      `Two processes on two cores carry ${median(ratios).toFixed(2)} x of one (median over rounds; ${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}).`,
    ]
  } finally {
    await Promise.all([one.stop(), two.stop(), origin.close(), source.close()])
  }
}

await bench({
  folder: import.meta.dirname,
  title: 'bench/workers',
  about:
    'One and two processes of bidweir between the same load source and the same supplier on this machine, the mix of bench/proxy, 1,500 requests a second and 32 connections for each process, with all that bidweir does. Rounds are interleaved, figures are medians; only ratios within one run count. The source and the supplier take cores, too, so throughput is computed from CPU time.',
  sections: {
    speed: { title: 'Two processes beside one', run: speed },
  },
})
