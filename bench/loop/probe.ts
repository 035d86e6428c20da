/**
 * Runs inside the service: the longest time between two turns of the event loop since the last message, what the main
 * thread did in it, and the longest time that it ran between any two turns.
 */
import { isMainThread } from 'node:worker_threads'
import { type Reading, read } from './processor.ts'

/** Milliseconds. What is left of `hold` the thread was blocked, such as by threads of the garbage collector. */
export interface Longest {
  hold: number
  /** Of `hold`: the thread ran. */
  ran: number
  /** Of `hold`: the thread was ready to run, and others had the processor. */
  waited: number
  /** The longest time that the thread ran in any turn. */
  own: number
}

if (isMainThread) {
  const none = (): Longest => ({ hold: 0, ran: 0, waited: 0, own: 0 })
  let longest = none()
  let [last, now]: [Reading, Reading] = [
    { at: 0, ran: 0, waited: 0 },
    { at: 0, ran: 0, waited: 0 },
  ]
  read(last)
  const turn = () => {
    read(now)
    const hold = now.at - last.at
    const ran = now.ran - last.ran
    if (hold > longest.hold) {
      longest.hold = hold
      longest.ran = ran
      longest.waited = now.waited - last.waited
    }
    longest.own = Math.max(longest.own, ran)
    ;[last, now] = [now, last]
    setImmediate(turn)
  }
  turn()
  process.on('message', () => {
    process.send!(longest)
    longest = none()
  })
  process.channel!.unref()
}
