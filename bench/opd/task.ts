/** Runs one goal on one seed in a thread of its own, with one part of the learner switched off if the task names it. */
import { parentPort, workerData } from 'node:worker_threads'
import { goals } from './goals.ts'
import type { Measured } from './measure.ts'
import { parts } from './parts.ts'

export interface Task {
  goal: number
  seed: number
  bids: number
  /** Of `parts`. */
  without?: string | undefined
}
export interface Done extends Task {
  measured: Measured
  seconds: number
}

function perform(task: Task): Done {
  const { goal, seed, bids, without } = task
  const from = performance.now()
  const restore = without === undefined ? null : parts[without]!()
  const measured = goals[goal]!.measure(seed, bids)
  restore?.()
  return { ...task, measured, seconds: (performance.now() - from) / 1000 }
}

if (parentPort !== null && workerData === 'opd task') {
  const port = parentPort
  port.on('message', (task: Task) => port.postMessage(perform(task)))
}
