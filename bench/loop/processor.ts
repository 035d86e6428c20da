/** Milliseconds so far that the main thread was ready to run while the machine gave the processor to others. */
import { openSync, readSync } from 'node:fs'

const file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
const bytes = Buffer.alloc(128)
const space = 32
const zero = 48

/** The second figure of the kernel's `schedstat`, in nanoseconds there. It allocates nothing: garbage would be measured, too. */
export function waited(): number {
  readSync(file, bytes, 0, bytes.length, 0)
  let nanoseconds = 0
  for (let at = bytes.indexOf(space) + 1; bytes[at]! >= zero; at++)
    nanoseconds = nanoseconds * 10 + bytes[at]! - zero
  return nanoseconds / 1e6
}
