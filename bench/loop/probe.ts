/**
 * Runs inside the service: measures the longest time that a turn of the event loop took between two messages. Turns in
 * which the machine gave the thread's processor to others are left out: they say nothing about the service.
 */
import { isMainThread } from 'node:worker_threads'
import { preemptions } from './preemptions.ts'

if (isMainThread) {
  let worst = 0
  let last = performance.now()
  let taken = preemptions()
  const turn = () => {
    const held = performance.now() - last
    const now = preemptions()
    if (now === taken) worst = Math.max(worst, held)
    taken = now
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
