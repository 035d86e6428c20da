/** Threads whose work may wait a little: bid traffic on the same core goes first. */
import { getPriority, setPriority } from 'node:os'
import { Worker, type WorkerOptions } from 'node:worker_threads'

/** On other systems it is processes that have a priority, and that of this process must stay. */
const threadsHavePriorities = process.platform === 'linux'

/**
 * Starts a thread of low priority: beside a busy main thread on the same core it gets a tenth of it. Not the lowest priority,
 * with which a refit would take minutes there. Neither bids nor win notices may wait for it.
 *
 * @param module what runs in it; its priority is low before the module and its imports are compiled, half a second of work
 * @param options all but `argv`
 */
export function startInBackground(module: URL, options: Omit<WorkerOptions, 'argv'> = {}): Worker {
  const name = import.meta.url.endsWith('.ts') ? './background-entry.ts' : './background-entry.js'
  return new Worker(new URL(name, import.meta.url), { ...options, argv: [module.href] })
}

/** Lowers the priority of the calling thread. */
export function lowerPriority(): void {
  // 0 is the calling thread (setpriority(2), "C library/kernel differences").
  // Relative: if the service itself runs at a nice value above 10, an absolute 10 would be refused.
  if (threadsHavePriorities) setPriority(0, Math.min(getPriority(0) + 10, 19))
}
