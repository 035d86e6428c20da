/** CPU time and counts of a cluster while it does something. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Cluster, StoreCounts } from './cluster.ts'

/** Per second of an idle cluster, or per bid or win. */
export interface Cost extends StoreCounts {
  cpu: number
}

export const costOf = (value: (name: keyof Cost) => number): Cost => ({
  cpu: value('cpu'),
  redisCommands: value('redisCommands'),
  redisUs: value('redisUs'),
  redisBytesIn: value('redisBytesIn'),
  commits: value('commits'),
  walBytes: value('walBytes'),
})

const cpuOf = ({ nodes }: Cluster) => nodes.reduce((sum, node) => sum + node.cpu(), 0)

export interface Window {
  cost: Cost
  seconds: number
  /** Bids or wins. */
  count: number
}

/** `work` resolves to the number of bids or wins. */
export async function windowOf(cluster: Cluster, work: () => Promise<number>): Promise<Window> {
  const [cpu, before, began] = [cpuOf(cluster), await cluster.stores(), performance.now()]
  const count = await work()
  // What is written in batches is written.
  await wait(200)
  const seconds = (performance.now() - began) / 1000
  const now: Cost = { ...(await cluster.stores()), cpu: cpuOf(cluster) }
  const then: Cost = { ...before, cpu }
  return { cost: costOf((name) => now[name] - then[name]), seconds, count }
}
