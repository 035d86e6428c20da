/**
 * `npm run bench:nodes`: what bids and wins cost a node and the stores where 1, 2 and 4 nodes share them; about three
 * minutes. Only CPU time and counts are measured, because the nodes, their callers and the stores share this machine.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { type Bench, bench, type Run } from '../harness/bench.ts'
import type { Outcome } from '../harness/caller.ts'
import {
  type Cluster,
  type Cost,
  costFrom,
  mint,
  startCluster,
  stores,
  windowOf,
} from '../harness/cluster.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, startCaller } from '../harness/service.ts'
import { inTurns, median } from '../harness/statistics.ts'
import { speed } from './speed.ts'

const options = {
  nodes: { value: '1,2,4', help: 'sizes of the clusters' },
  bids: { value: 400, least: 10, help: 'bids a second of a whole cluster' },
  wins: { value: 200, least: 10, help: 'wins a second of a whole cluster' },
}
type NodesRun = Run<typeof options>
type Section = Bench<typeof options, undefined>['sections'][string]

const store = 'PostgreSQL and Redis'
/** Share of requests that nodes on a busy machine may refuse. Their cost is part of the figures. */
const mostRefused = 0.1
const sum = (counts: readonly number[]) => counts.reduce((all, count) => all + count, 0)

/** `idle`: of a second; the others: of one, less what an idle cluster does in that time. */
type Sample = Record<'idle' | 'bid' | 'win', Cost>

/** Each caller sends its bids to one node, and the wins that this node decided to the next one. */
async function sample(
  run: NodesRun,
  cluster: Cluster,
  callers: readonly Caller[],
): Promise<Sample> {
  const { nodes } = cluster
  const load = { warm: 0, measure: run.quick ? 1500 : 3000, connections: 8 }
  const idle = await windowOf(cluster, () => wait(load.measure))
  const idleCost = costFrom(idle.cost, (name) => idle.cost[name] / idle.seconds)
  async function onAll(ask: (index: number) => Promise<Outcome>): Promise<Cost> {
    const { cost, seconds, result } = await windowOf(cluster, () =>
      Promise.all(nodes.map((_node, index) => ask(index))),
    )
    const [done, failed] = [
      sum(result.map((outcome) => outcome.total)),
      sum(result.map((outcome) => outcome.failed)),
    ]
    if (failed > mostRefused * (done + failed))
      run.refuse(`${nodes.length} nodes: ${failed} of ${done + failed} requests failed`)
    return costFrom(cost, (name) => (cost[name] - idleCost[name] * seconds) / done)
  }
  const rateOf = (all: number) => Math.ceil(all / nodes.length)
  const bids = { ...load, paths: ['/bid/bench'], rate: rateOf(run.options.bids) }
  const bid = await onAll((index) => callers[index]!.ask({ ...bids, port: nodes[index]!.proxy }))
  const notices = { ...load, what: 'notices', rate: rateOf(run.options.wins) } as const
  const most = Math.ceil((notices.rate * load.measure) / 1000) + 50
  const token = await cluster.token()
  for (const [index, { admin }] of nodes.entries()) await mint(callers[index]!, admin, token, most)
  const win = await onAll((index) =>
    callers[index]!.ask({ ...notices, port: nodes[(index + 1) % nodes.length]!.admin }),
  )
  return { idle: idleCost, bid, win }
}

async function costs(run: NodesRun): Promise<Block[]> {
  const sizes = run.options.nodes.split(',').map(Number)
  await using stack = new AsyncDisposableStack()
  const callers = Array.from({ length: Math.max(...sizes) }, () => stack.use(startCaller()))
  const clusters: Cluster[] = []
  for (const size of sizes) clusters.push(stack.use(await startCluster(store, size)))
  // Every node compiles what it runs.
  for (const cluster of clusters) await sample({ ...run, quick: false }, cluster, callers)
  const samples = await inTurns(run.quick ? 2 : 3, clusters, async (cluster) => {
    const found = await sample(run, cluster, callers)
    const { bid, win } = found
    const count = cluster.nodes.length
    run.say(`  ${count} nodes: ${bid.cpu.toFixed(0)} us/bid, ${win.cpu.toFixed(0)} us/win`)
    return found
  })
  return tables(
    sizes,
    clusters.map((cluster) => samples.get(cluster)!),
  )
}

/** Medians over the rounds; `x 1 node`: of the ratios to the first cluster in the same round. */
function tables(sizes: readonly number[], samples: readonly Sample[][]): Block[] {
  const head = [
    ...['nodes', 'CPU us of the nodes', 'x 1 node', 'Redis commands', 'Redis CPU us'],
    ...['Redis bytes in', 'PostgreSQL commits', 'WAL bytes'],
  ]
  function table(figure: keyof Sample, perSecond: (size: number) => number, digits: number): Block {
    const rows = sizes.map((size, index) => {
      const value = (name: keyof Cost, digits = 0) =>
        (median(samples[index]!.map((round) => round[figure][name])) / perSecond(size)).toFixed(
          digits,
        )
      const ratios = samples[index]!.map(
        (sample, round) => sample[figure].cpu / samples[0]![round]![figure].cpu,
      )
      return [
        ...[size, value('cpu'), ...(figure === 'idle' ? [] : [median(ratios).toFixed(2)])],
        ...[value('redisCommands', digits), value('redisUs', figure === 'idle' ? 0 : 1)],
        ...[value('redisBytesIn'), value('commits', digits), value('walBytes')],
      ]
    })
    return { head: figure === 'idle' ? head.filter((name) => name !== 'x 1 node') : head, rows }
  }
  return [
    'A bid: one request of one bid through the proxy, decided, in the bid log, its update sent to the other nodes.',
    table('bid', () => 1, 2),
    'A win: a notice with a context of another node, stored once.',
    table('win', () => 1, 2),
    'An idle node, a second:',
    table('idle', (size) => size, 1),
  ]
}

const { absent } = stores[store]
await bench({
  folder: import.meta.dirname,
  title: 'Several nodes',
  about:
    'Clusters of nodes, each on a PostgreSQL and a Redis of its own, take the same load in turn: medians over the rounds, less what an idle cluster does in that time. The ratio is that of the CPU in the same round. All nodes have the role `all`: one of them reads the updates of all and shares a curve every four seconds, which the others adopt: at the low rates of this benchmark that is most of what further nodes add.',
  options,
  sections: {
    costs: { title: 'Costs', absent, run: costs } satisfies Section,
    speed: { title: 'At full speed', absent, run: speed } satisfies Section,
  },
})
