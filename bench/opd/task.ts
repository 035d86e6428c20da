/** Runs one goal, or one market that is drawn at random, on one seed in a thread of its own. */
import { parentPort, workerData } from 'node:worker_threads'
import type { Control } from './controlled.ts'
import { type Found, runDrawn } from './drawn.ts'
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
export interface DrawnTask {
  control: Control
  seed: number
  bids: number
}
export interface DrawnDone extends DrawnTask {
  found: Found
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
  port.on('message', (task: Task | DrawnTask) =>
    port.postMessage(
      'control' in task
        ? { ...task, found: runDrawn(task.seed, task.bids, task.control) }
        : perform(task),
    ),
  )
}
