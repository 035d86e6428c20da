/**
 * Runs inside the service: measures the longest time that a turn of the event loop took between two messages, less the
 * time in which the thread was ready to run and the machine gave its processor to others.
 */
import { readFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

/** Milliseconds so far that the thread waited for a processor: the second figure of the kernel's `schedstat`. */
const waited = () =>
  Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6

if (isMainThread) {
  let worst = 0
  let last = performance.now()
  let waitedBefore = waited()
  const turn = () => {
    const now = waited()
    worst = Math.max(worst, performance.now() - last - (now - waitedBefore))
    waitedBefore = now
    last = performance.now()
    setImmediate(turn)
  }
  turn()
  process.on('message', () => {
    process.send!(worst)
    worst = 0
  })
  process.channel!.unref()
}
