/** One goal on one seed, in a thread of its own. */
import { parentPort, workerData } from 'node:worker_threads'
import { goals, type Measured } from './goals.ts'

export interface Task {
  goal: number
  seed: number
  bids: number
}
export interface Done extends Task {
  measured: Measured
  seconds: number
}

function perform({ goal, seed, bids }: Task): Done {
  const from = performance.now()
  const measured = goals[goal]!.measure(seed, bids)
  return { goal, seed, bids, measured, seconds: (performance.now() - from) / 1000 }
}

if (parentPort !== null && workerData === 'opd task') {
  const port = parentPort
  port.on('message', (task: Task) => port.postMessage(perform(task)))
}
