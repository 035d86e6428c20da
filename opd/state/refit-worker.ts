/** The worker thread of refits: a fit takes up to seconds, and the main thread decides prices. */
import { parentPort } from 'node:worker_threads'
import { refit } from '../learner.ts'

export type RefitResponse = { result: Uint8Array<ArrayBuffer> } | { error: string }

parentPort!.on('message', (job: Uint8Array) => {
  try {
    const result = Uint8Array.from(refit(job))
    parentPort!.postMessage({ result } satisfies RefitResponse, [result.buffer])
  } catch (error) {
    parentPort!.postMessage({ error: (error as Error).message } satisfies RefitResponse)
  }
})
