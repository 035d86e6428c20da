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
}
export interface Done extends Task {
  measured: Measured
  seconds: number
}
export interface DrawnTask {
  control: Control
  seed: number
  bids: number
  /** Win rates of .1 to 1 %. */
  rare?: boolean | undefined
  /** Of `parts`. */
  without?: string | undefined
}
export interface DrawnDone extends DrawnTask {
  found: Found
}

function perform(task: Task): Done {
  const { goal, seed, bids } = task
  const from = performance.now()
  const measured = goals[goal]!.measure(seed, bids)
  return { ...task, measured, seconds: (performance.now() - from) / 1000 }
}

function performDrawn(task: DrawnTask): DrawnDone {
  const { seed, bids, control, rare, without } = task
  const restore = without === undefined ? null : parts[without]!()
  const found = runDrawn(seed, bids, control, rare)
  restore?.()
  return { ...task, found }
}

if (parentPort !== null && workerData === 'opd task') {
  const port = parentPort
  port.on('message', (task: Task | DrawnTask) =>
    port.postMessage('control' in task ? performDrawn(task) : perform(task)),
  )
}
