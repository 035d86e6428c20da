/**
 * Runs inside the service: by how much a timer of 5 ms was late, at the 99th percentile, between two messages. Periods in which
 * the machine gave the processor to others are left out.
 */
import { isMainThread } from 'node:worker_threads'
import { preemptions } from './preemptions.ts'

const period = 5

if (isMainThread) {
  let late: number[] = []
  let due = performance.now() + period
  let taken = preemptions()
  const tick = () => {
    const lateness = performance.now() - due
    const now = preemptions()
    if (now === taken) late.push(lateness)
    taken = now
    due = performance.now() + period
    setTimeout(tick, period).unref()
  }
  setTimeout(tick, period).unref()
  process.on('message', () => {
    late.sort((one, other) => one - other)
    process.send!(late[Math.floor(late.length * 0.99)] ?? Number.NaN)
    late = []
  })
  process.channel!.unref()
}
