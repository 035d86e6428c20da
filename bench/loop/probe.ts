/**
 * Runs inside the service: measures the longest time that a turn of the event loop took between two messages, less the
 * time in which the thread was ready to run and the machine gave its processor to others.
 */
import { isMainThread } from 'node:worker_threads'
import { waited } from './processor.ts'

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
