/** The worker thread of reports: on the main thread, a report on 50,000 publishers blocked bid traffic for 250 ms. */
import { parentPort, workerData } from 'node:worker_threads'
import { StoreError } from '../store/errors.ts'
import { openReader } from '../store/reader.ts'
import { type ReportRequest, report } from './render.ts'

export interface WorkerRequest extends ReportRequest {
  id: number
}
export type WorkerResponse =
  | { id: number; bytes: Uint8Array<ArrayBuffer> }
  | { id: number; error: string; lost: boolean }

const source = await openReader(workerData as string)
let last = Promise.resolve()

async function answer({ id, ...ask }: WorkerRequest): Promise<void> {
  try {
    const bytes = await report(source, ask)
    parentPort!.postMessage({ id, bytes } satisfies WorkerResponse, [bytes.buffer])
  } catch (error) {
    const lost = error instanceof StoreError
    parentPort!.postMessage({ id, error: (error as Error).message, lost } satisfies WorkerResponse)
  }
}

parentPort!.on('message', (ask: WorkerRequest) => {
  // one at a time, since each report may read the whole ledger
  last = last.then(() => answer(ask))
})
