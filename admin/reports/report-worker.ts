/** Runs reports on a worker thread. Its failures are StoreErrors. */
import type { Store } from '../store/index.ts'
import { StoreThread } from '../store/store-thread.ts'
import { type ReportRequest, report } from './render.ts'

export function createReportWorker(
  store: Pick<Store, 'db' | 'postgres' | 'url'>,
): StoreThread<ReportRequest> {
  const name = import.meta.url.endsWith('.ts') ? './report-thread.ts' : './report-thread.js'
  return new StoreThread(store, { module: new URL(name, import.meta.url), here: report })
}
