/**
 * Runs inside the service and answers each message with what happened since the last one. `?turns`: the longest turn of the
 * event loop, and what the main thread did in it. `?timer`: by how much a timer of 5 ms was late, at the 99th percentile, less
 * the time in which the thread was ready to run and the machine gave its processor to others.
 */
import { openSync, readSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

/** Milliseconds. What is left of `hold` the thread was blocked, such as by threads of the garbage collector. */
export interface Longest {
  hold: number
  /** Of `hold`: the thread ran. */
  ran: number
  /** Of `hold`: the thread was ready to run, and others had the processor. */
  waited: number
  /** The longest time that the thread ran in any turn. */
  ownHold: number
}

/** Milliseconds so far that the main thread ran, and that it was ready to run while others had the processor. */
class Reading {
  /** Of `performance.now()`. */
  time = 0
  ran = 0
  waited = 0
}

const file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
const bytes = Buffer.alloc(128)
const zero = 48
/** A reading that took longer was interrupted: its figures are of different times. */
const interrupted = 0.2

/** The next figure of the text, and its end. */
let end = 0
function nextFigure(): number {
  let nanoseconds = 0
  for (; bytes[end]! >= zero; end++) nanoseconds = nanoseconds * 10 + bytes[end]! - zero
  end++
  return nanoseconds / 1e6
}

/** Reads the kernel's `schedstat` into `into`: an object of its own would be garbage, which is measured, too. */
function read(into: Reading): void {
  let before: number
  do {
    before = performance.now()
    // The kernel brings the time of a running thread up to date only at its ticks, and when this is called.
    process.cpuUsage()
    readSync(file, bytes, 0, bytes.length, 0)
    end = 0
    into.ran = nextFigure()
    into.waited = nextFigure()
    into.time = performance.now()
  } while (into.time - before > interrupted)
}

let [last, now] = [new Reading(), new Reading()]

/** Returns what gives the longest turn so far, and forgets it. */
function watchTurns(): () => Longest {
  const none = (): Longest => ({ hold: 0, ran: 0, waited: 0, ownHold: 0 })
  let longest = none()
  const turn = () => {
    read(now)
    const hold = now.time - last.time
    const ran = now.ran - last.ran
    if (hold > longest.hold) {
      longest.hold = hold
      longest.ran = ran
      longest.waited = now.waited - last.waited
    }
    longest.ownHold = Math.max(longest.ownHold, ran)
    ;[last, now] = [now, last]
    setImmediate(turn)
  }
  turn()
  return () => {
    const found = longest
    longest = none()
    return found
  }
}

const period = 5

function watchTimer(): () => number {
  let late: number[] = []
  const tick = () => {
    read(now)
    late.push(now.time - last.time - period - (now.waited - last.waited))
    ;[last, now] = [now, last]
    start()
  }
  const start = () => {
    last.time = performance.now()
    setTimeout(tick, period).unref()
  }
  start()
  return () => {
    const sorted = late.sort((one, other) => one - other)
    late = []
    return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN
  }
}

if (isMainThread) {
  read(last)
  const report = new URL(import.meta.url).search === '?turns' ? watchTurns() : watchTimer()
  process.on('message', () => process.send!(report()))
  process.channel!.unref()
}
