/** Nanoseconds and bytes that the gate costs a request below the limit: enter, send, finished. */
import { type Candidate, Gate } from '../../proxy/gate.ts'

const requests = 2_000_000
const gate = new Gate()
gate.configure(null, 8192, 0)
const candidate: Candidate = { due: 0, send() {}, refuse() {} }

/** Eight requests in flight, each answered after 20 ms. */
function run(from: number): void {
  for (let nth = 0; nth < requests; nth++) {
    const now = from + nth * 2.5
    ;(candidate as { due: number }).due = now + 120
    gate.refuses(now + 120, now)
    gate.enter(candidate, now)
    if (nth >= 8) gate.finished(now - 20, now, true)
  }
  for (let nth = 0; nth < 8; nth++) gate.dropped(from + requests * 2.5)
}

let best = Number.POSITIVE_INFINITY
for (let round = 0; round < 7; round++) {
  const began = process.hrtime.bigint()
  run(round * requests * 2.5)
  best = Math.min(best, Number(process.hrtime.bigint() - began) / requests)
}
const before = process.memoryUsage().heapUsed
run(10 * requests * 2.5)
const bytes = (process.memoryUsage().heapUsed - before) / requests
process.stdout.write(`${best.toFixed(0)} ns a request, ${bytes.toFixed(2)} bytes\n`)
