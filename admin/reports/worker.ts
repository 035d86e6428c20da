/** The thread that reports are made on: 50,000 publishers held the event loop of bid traffic for 250 ms. */
import { parentPort, workerData } from 'node:worker_threads'
import { StoreError } from '../store/errors.ts'
import { openReader } from '../store/reader.ts'
import { type ReportAsk, report } from './report.ts'

export interface Ask extends ReportAsk {
  id: number
}
export type Answer =
  | { id: number; bytes: Uint8Array<ArrayBuffer> }
  | { id: number; error: string; lost: boolean }

const source = openReader(workerData as string)
let last = Promise.resolve()

async function answer({ id, ...ask }: Ask): Promise<void> {
  try {
    const bytes = await report(source, ask)
    parentPort!.postMessage({ id, bytes } satisfies Answer, [bytes.buffer])
  } catch (error) {
    const lost = error instanceof StoreError
    parentPort!.postMessage({ id, error: (error as Error).message, lost } satisfies Answer)
  }
}

parentPort!.on('message', (ask: Ask) => {
  // one at a time: each may be as large as the ledger
  last = last.then(() => answer(ask))
})
