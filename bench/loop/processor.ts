/** Milliseconds so far that the main thread ran, and that it was ready to run while others had the processor. */
import { openSync, readSync } from 'node:fs'

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

/** `at`: of `performance.now()`. */
export interface Reading {
  at: number
  ran: number
  waited: number
}

/** Reads the kernel's `schedstat` into `into`: an object of its own would be garbage, which is measured, too. */
export function read(into: Reading): void {
  let before: number
  do {
    before = performance.now()
    // The kernel brings the time of a running thread up to date only at its ticks, and when this is called.
    process.cpuUsage()
    readSync(file, bytes, 0, bytes.length, 0)
    end = 0
    into.ran = nextFigure()
    into.waited = nextFigure()
    into.at = performance.now()
  } while (into.at - before > interrupted)
}
