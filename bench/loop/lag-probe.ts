/**
 * Runs inside the service: by how much a timer of 5 ms was late, at the 99th percentile, between two messages, less
 * the time in which the thread was ready to run and the machine gave its processor to others.
 */
import { isMainThread } from 'node:worker_threads'
import { type Reading, read } from './processor.ts'

const period = 5

if (isMainThread) {
  let late: number[] = []
  let due = performance.now() + period
  const reading: Reading = { at: 0, ran: 0, waited: 0 }
  read(reading)
  let waitedBefore = reading.waited
  const tick = () => {
    read(reading)
    late.push(reading.at - due - (reading.waited - waitedBefore))
    waitedBefore = reading.waited
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
