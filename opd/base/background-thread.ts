/** Threads whose work may wait a little: bid traffic on the same core goes first. */
import { getPriority, setPriority } from 'node:os'

/** On other systems it is processes that have a priority, and that of this process must stay. */
const threadsHavePriorities = process.platform === 'linux'

/**
 * Lowers the priority of the calling thread: beside a busy main thread on the same core it gets a tenth of it. Not the lowest
 * priority, with which a refit would take minutes there. Call it in worker threads alone, and in none that bids or win notices
 * wait for.
 */
export function runInBackground(): void {
  // 0 is the calling thread (setpriority(2), "C library/kernel differences").
  // Relative: if the service itself runs at a nice value above 10, an absolute 10 would be refused.
  if (threadsHavePriorities) setPriority(0, Math.min(getPriority(0) + 10, 19))
}
