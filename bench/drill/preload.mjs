/** Imported into each node of the drill, and into its threads: files in the node's folder inject faults of the process. */
import { existsSync } from 'node:fs'
import { isMainThread, parentPort } from 'node:worker_threads'

/** Milliseconds by which the clock is behind while the file `clock-off` exists. */
const behind = 20 * 60_000
let offset = 0
const Real = Date
globalThis.Date = class extends Real {
  constructor(...given) {
    if (given.length === 0) super(Real.now() + offset)
    else super(...given)
  }
  static now() {
    return Real.now() + offset
  }
}
setInterval(() => {
  offset = existsSync('clock-off') ? -behind : 0
}, 200).unref()

/** While the file `refit-hangs` exists, a refit that begins never ends. */
if (!isMainThread && process.argv[1]?.includes('refit-worker'))
  parentPort.on('message', () => {
    if (existsSync('refit-hangs')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })
