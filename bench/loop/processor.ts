/** Milliseconds so far that the main thread was ready to run while the machine gave the processor to others. */
import { readFileSync } from 'node:fs'

/** The second figure of the kernel's `schedstat`, in nanoseconds there. */
export const waited = (): number =>
  Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6
