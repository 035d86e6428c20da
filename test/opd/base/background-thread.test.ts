/** Priorities of threads, as Linux shows them. */
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import t from 'tap'

const skip = process.platform === 'linux' ? false : 'threads have no priorities here'

/** The nice value of each thread of this process: field 19 of proc(5). */
function priorities(): number[] {
  return readdirSync('/proc/self/task').map((thread) => {
    const text = readFileSync(`/proc/self/task/${thread}/stat`, 'latin1')
    return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[16])
  })
}

for (const name of ['opd/state/refit-worker.ts', 'admin/reports/report-thread.ts'])
  t.test(`${name} has a lower priority than the main thread`, { skip }, async (t) => {
    const priority = getPriority()
    t.same(new Set(priorities()), new Set([priority]))
    // In memory: no database is needed.
    const worker = new Worker(new URL(`../../../${name}`, import.meta.url), {
      workerData: 'sqlite::memory:',
    })
    t.teardown(() => worker.terminate())
    await once(worker, 'online')
    while (!priorities().includes(Math.min(priority + 10, 19))) {
      await new Promise((resolve) => setImmediate(resolve))
    }
    t.ok(priorities().filter((value) => value === priority).length > 1, 'the others keep theirs')
    t.equal(getPriority(), priority)
  })
