/** Priorities of threads, as Linux shows them. */
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import t from 'tap'
import { createReportWorker } from '../../../admin/reports/report-worker.ts'
import { openStore } from '../../../admin/store/index.ts'
import { startInBackground } from '../../../opd/state/background-thread.ts'
import { ManagedLearner } from '../../../opd/state/managed-learner.ts'
import { Refitter } from '../../../opd/state/refitter.ts'
import { trained } from '../../support/learners.ts'
import { newFolder } from '../../support/process.ts'
import { until } from '../../support/until.ts'

const skip = process.platform === 'linux' ? false : 'threads have no priorities here'
const log = { info() {}, warn() {}, error() {} }
const usual = getPriority()
const low = Math.min(usual + 10, 19)

/** The nice value of each thread of this process: field 19 of proc(5). */
function priorities(): number[] {
  return readdirSync('/proc/self/task').map((thread) => {
    const text = readFileSync(`/proc/self/task/${thread}/stat`, 'latin1')
    return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[16])
  })
}

const lowOnes = () => priorities().filter((value) => value === low).length

t.test('a thread in the background has its priority before its module', { skip }, async (t) => {
  const source =
    "import { getPriority } from 'node:os'; import { parentPort, workerData } from 'node:worker_threads'; parentPort.postMessage([getPriority(), workerData])"
  const thread = startInBackground(new URL(`data:text/javascript,${encodeURIComponent(source)}`), {
    workerData: 'a job',
  })
  const [answer] = await once(thread, 'message')
  t.same(answer, [low, 'a job'])
  t.equal(getPriority(), usual)
  await thread.terminate()
})

t.test('refits and reports have a lower priority than bids', { skip }, async (t) => {
  t.equal(lowOnes(), 0)
  const refitter = new Refitter(log, () => {})
  const [inner] = trained(1, 2000, 100)
  refitter.poll([new ManagedLearner(inner!, 0)], 2e12)
  await until(() => lowOnes() === 1)
  await refitter.close()

  const store = await openStore(`sqlite:${newFolder()}/b.db`, { now: Date.now, log })
  const reports = createReportWorker(store)
  await reports.run({
    scope: { suppliers: ['acme'], all: true, from: 0, to: 1, by: 'ssp' },
    columns: ['key', 'wins'],
    format: 'csv',
    rules: { notices: {}, rates: { USD: 1 }, base: 'USD' },
  })
  t.ok(lowOnes() >= 1)
  t.ok(priorities().filter((value) => value === usual).length > 1, 'other threads keep theirs')
  await reports.close()
  await store.close()
})
