/** The thread that writes the log to stderr, so that a slow reader or disk delays no bid. */
import { workerData } from 'node:worker_threads'
import { LineRing } from './line-ring.ts'

const ring = new LineRing(workerData as SharedArrayBuffer)
for (;;) {
  ring.waitForLines()
  ring.drain(2, Number.POSITIVE_INFINITY)
}
