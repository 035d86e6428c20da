/** The worker thread of reports: started on demand, ended when idle; no request waits after its end. */
import t from 'tap'
import { createReportWorker } from '../../../admin/reports/report-worker.ts'
import { openStore } from '../../../admin/store/index.ts'
import { newFolder } from '../../support/process.ts'

const log = { info() {}, warn() {}, error() {} }
const request = {
  scope: { suppliers: ['acme'], all: true, from: 0, to: 1, by: 'ssp' },
  columns: ['key', 'wins'],
  format: 'csv',
  rules: { notices: {}, rates: { USD: 1 }, base: 'USD' },
} as const

const open = async (url: string) => {
  const store = await openStore(url, { now: Date.now, log })
  return { store, worker: createReportWorker(store) }
}

t.test(
  'a report that waits when the worker closes is refused, and an unused worker closes',
  async (t) => {
    const { store, worker } = await open(`sqlite:${newFolder()}/b.db`)
    t.equal(Buffer.from(await worker.run(request)).toString(), 'supplier,wins\r\n')
    const waiting = Promise.allSettled([worker.run(request), worker.run(request)])
    await worker.close()
    for (const response of await waiting)
      t.match(response, { status: 'rejected', reason: { code: 'closed' } })
    t.equal(
      Buffer.from(await worker.run(request)).toString(),
      'supplier,wins\r\n',
      'asked again it starts again',
    )
    await worker.close()
    await createReportWorker(store).close()
    await store.close()
  },
)

t.test('a database in memory is read on the main thread', async (t) => {
  const { store, worker } = await open('sqlite::memory:')
  t.equal(Buffer.from(await worker.run(request)).toString(), 'supplier,wins\r\n')
  await worker.close()
  await store.close()
})

t.test('a database that does not open is a lost store', async (t) => {
  const { store } = await open(`sqlite:${newFolder()}/b.db`)
  const worker = createReportWorker({
    ...store,
    url: 'postgres://nobody@127.0.0.1:1/none',
    postgres: true,
  })
  await t.rejects(worker.run(request), { name: 'StoreError', code: 'unavailable' })
  await worker.close()
  await store.close()
})
