/**
 * `npm run bench:nodes`: what bids and wins cost a node and the stores where 1, 2 and 4 nodes share them; about three
 * minutes. Only CPU time and counts are measured, because the nodes, their callers and the stores share this machine.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { postgresAbsent } from '../../test/support/postgres.ts'
import { redisAbsent } from '../../test/support/redis.ts'
import type { Job, Reported } from '../admin/source.ts'
import { type Bench, bench, type Run } from '../harness/bench.ts'
import { Child } from '../harness/child.ts'
import type { Block } from '../harness/report.ts'
import { startOrigin, startSource } from '../harness/service.ts'
import type { Job as BidJob, Outcome } from '../harness/source.ts'
import { inTurns, median } from '../harness/statistics.ts'
import { type Cluster, startCluster } from './cluster.ts'
import { speed } from './speed.ts'
import { type Cost, costOf, type Window, windowOf } from './window.ts'

const options = {
  nodes: { value: '1,2,4', help: 'sizes of the clusters' },
  bids: { value: 400, least: 10, help: 'bids a second of a whole cluster' },
  wins: { value: 200, least: 10, help: 'wins a second of a whole cluster' },
}
type NodesRun = Run<typeof options>
type Section = Bench<typeof options, undefined>['sections'][string]

const connections = 8
/** Share of requests that nodes on a busy machine may refuse; what they cost is in the figures. */
const mostRefused = 0.1
const allOf = ({ count, failed }: Outcome) => count + failed
const sum = (counts: readonly number[]) => counts.reduce((all, count) => all + count, 0)
/** Caller of one node: its bids, and its wins, which another node decided. */
interface Caller {
  bids: Child<BidJob, Outcome>
  platform: Child<Job, Reported>
}

interface Sample {
  idle: Cost
  bid: Cost
  win: Cost
}

async function sample(run: NodesRun, cluster: Cluster, callers: readonly Caller[]) {
  const { nodes } = cluster
  const window = { warm: 0, measure: run.quick ? 1500 : 3000, connections }
  const check = (outcomes: readonly Outcome[]) => {
    const [failed, all] = [sum(outcomes.map((each) => each.failed)), sum(outcomes.map(allOf))]
    if (failed > mostRefused * all)
      run.refuse(`${nodes.length} nodes: ${failed} of ${all} requests failed`)
  }
  const idle = await windowOf(cluster, async () => {
    await wait(window.measure)
    return 1
  })
  const rate = (all: number) => Math.ceil(all / nodes.length)
  const bids = await windowOf(cluster, async () => {
    const outcomes = await Promise.all(
      nodes.map(({ proxy }, at) => {
        const job = { ...window, port: proxy, paths: ['/bid/bench'], rate: rate(run.options.bids) }
        return callers[at]!.bids.ask(job)
      }),
    )
    check(outcomes)
    return sum(outcomes.map(({ count }) => count))
  })
  const token = await cluster.token()
  const notices = { ...window, token, bids: 10, rate: rate(run.options.wins) }
  const most = Math.ceil((notices.rate * window.measure) / 1000) + 50
  for (const [at, { admin }] of nodes.entries()) {
    const job = { ...notices, what: 'prices' as const, port: admin, rate: 0, most, measure: 300 }
    for (let left = 0; left < most; ) {
      const made = await callers[at]!.platform.ask(job)
      if (made.fault !== '') throw new Error(`no prices: ${made.fault}`)
      left = made.left
    }
  }
  const won = await windowOf(cluster, async () => {
    const outcomes = await Promise.all(
      nodes.map((_node, at) => {
        const port = nodes[(at + 1) % nodes.length]!.admin
        return callers[at]!.platform.ask({ ...notices, what: 'notices', port, most })
      }),
    )
    check(outcomes)
    return sum(outcomes.map(({ total }) => total))
  })
  const idleCost = costOf((name) => idle.cost[name] / idle.seconds)
  /** Of one bid or win, without what an idle cluster does in that time. */
  const each = ({ cost, seconds, count }: Window) =>
    costOf((name) => (cost[name] - idleCost[name] * seconds) / count)
  return { idle: idleCost, bid: each(bids), win: each(won) }
}

/** Medians over the rounds, and of the ratios to the first cluster in the same round. */
function medians(samples: readonly Sample[], first: readonly Sample[], of: keyof Sample) {
  const value = (name: keyof Cost) => median(samples.map((each) => each[of][name]))
  const ratio = median(samples.map((each, round) => each[of].cpu / first[round]![of].cpu))
  return { value, ratio }
}

async function costs(run: NodesRun): Promise<Block[]> {
  const absent = postgresAbsent || redisAbsent
  if (absent !== false) {
    run.missing(absent)
    return []
  }
  const sizes = run.options.nodes.split(',').map(Number)
  const origin = await startOrigin()
  const callers: Caller[] = Array.from({ length: Math.max(...sizes) }, () => ({
    bids: startSource(),
    platform: new Child<Job, Reported>(new URL('../admin/source.ts', import.meta.url)),
  }))
  const clusters: Cluster[] = []
  try {
    for (const size of sizes) clusters.push(await startCluster(size, `${origin.url}?kind=bid`))
    // Every node compiles what it runs.
    for (const cluster of clusters) await sample({ ...run, quick: false }, cluster, callers)
    const samples = await inTurns(run.quick ? 2 : 3, clusters, async (cluster) => {
      const found = await sample(run, cluster, callers)
      const { bid, win } = found
      run.say(
        `  ${cluster.nodes.length} nodes: ${bid.cpu.toFixed(0)} us/bid, ${win.cpu.toFixed(0)} us/win`,
      )
      return found
    })
    return tables(
      sizes,
      clusters.map((cluster) => samples.get(cluster)!),
    )
  } finally {
    await Promise.all(clusters.map((cluster) => cluster.stop()))
    const children = callers.flatMap(({ bids, platform }) => [bids, platform])
    await Promise.all([origin, ...children].map((child) => child.close()))
  }
}

function tables(sizes: readonly number[], samples: readonly Sample[][]): Block[] {
  const head = [
    ...['nodes', 'CPU us of the nodes', 'x 1 node', 'Redis commands', 'Redis CPU us'],
    ...['Redis bytes in', 'PostgreSQL commits', 'WAL bytes'],
  ]
  const table = (of: keyof Sample, each: (size: number) => number, digits: number): Block => ({
    head: of === 'idle' ? head.filter((name) => name !== 'x 1 node') : head,
    rows: sizes.map((size, at) => {
      const { value, ratio } = medians(samples[at]!, samples[0]!, of)
      const of1 = (name: keyof Cost) => value(name) / each(size)
      return [
        size,
        of1('cpu').toFixed(0),
        ...(of === 'idle' ? [] : [ratio.toFixed(2)]),
        of1('redisCommands').toFixed(digits),
        of1('redisUs').toFixed(of === 'idle' ? 0 : 1),
        of1('redisBytesIn').toFixed(0),
        of1('commits').toFixed(digits),
        of1('walBytes').toFixed(0),
      ]
    }),
  })
  return [
    'A bid: one request of one bid through the proxy, decided, in the bid log, its update sent to the other nodes.',
    table('bid', () => 1, 2),
    'A win: a notice with a context of another node, stored once.',
    table('win', () => 1, 2),
    'An idle node, a second:',
    table('idle', (size) => size, 1),
  ]
}

await bench({
  folder: import.meta.dirname,
  title: 'Several nodes',
  about:
    'Clusters of nodes, each on a PostgreSQL and a Redis of its own, take the same load in turn: medians over the rounds, less what an idle cluster does in that time. The ratio is that of the CPU in the same round. All nodes have the role `all`: one of them reads the updates of all and shares a curve every four seconds, which the others adopt: at the low rates of this benchmark that is most of what further nodes add.',
  options,
  file: (sections) => (sections.join() === 'speed' ? 'RESULTS-speed.md' : 'RESULTS.md'),
  sections: {
    costs: { title: 'Costs', run: costs } satisfies Section,
    speed: { title: 'At full speed', run: speed } satisfies Section,
  },
})
