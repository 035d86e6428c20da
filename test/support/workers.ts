/** A node whose listener several processes share, and what a test asks of each of them. */
import { readdirSync, readFileSync } from 'node:fs'
import { type NodeOptions, startNode, sumOf } from './service-node.ts'

/** The processes that a process has started. */
function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8')
      .split(' ')
      .filter((text) => text.trim() !== '')
      .map(Number),
  )
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

export async function startWorkers(options: Partial<NodeOptions> & { endpoint: string }) {
  const node = await startNode({
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}'],
    workers: 2,
    freshConnections: true,
    ...options,
  })
  return {
    ...node,
    /** Process ids of the workers beside the first process. */
    workers: () => childrenOf(node.bidweir.child.pid!),
    /** Bid requests of each process, the first one first. */
    async requestsByWorker(): Promise<number[]> {
      const metrics = await node.metrics()
      return Array.from({ length: sumOf(metrics, 'bidweir_workers') }, (_, worker) =>
        sumOf(metrics, 'bidweir_worker_requests_total', `worker="${worker}"`),
      )
    },
  }
}
