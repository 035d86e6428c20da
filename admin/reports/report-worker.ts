/** Runs reports on a worker thread, which is started on demand and ended when it is idle. Its failures are StoreErrors. */
import { Worker } from 'node:worker_threads'
import { StoreError } from '../store/errors.ts'
import type { Store } from '../store/index.ts'
import { type ReportRequest, report } from './render.ts'
import type { WorkerRequest, WorkerResponse } from './report-thread.ts'

interface ReportWorker {
  /** Rejects with a StoreError if the store is lost, closed or overloaded. */
  run(request: ReportRequest): Promise<Uint8Array<ArrayBuffer>>
  close(): Promise<void>
}

/** Maximum of waiting reports; more are refused. */
const maxWaiting = 32
/** Milliseconds until an idle thread is ended. */
const idleTimeout = 60_000

export function createReportWorker(store: Pick<Store, 'db' | 'postgres' | 'url'>): ReportWorker {
  const { url } = store
  const waiting = new Map<number, PromiseWithResolvers<Uint8Array<ArrayBuffer>>>()
  let worker: Worker | null = null
  let idleTimer: NodeJS.Timeout | undefined
  let nextId = 0

  function start(): Worker {
    const name = import.meta.url.endsWith('.ts') ? './report-thread.ts' : './report-thread.js'
    const thread = new Worker(new URL(name, import.meta.url), { workerData: url })
    thread.unref()
    const failed = (error: Error) => {
      if (worker !== thread) return
      worker = null
      rejectAll(new StoreError('unavailable', `the report thread ended: ${error.message}`))
    }
    thread.on('error', failed)
    thread.on('exit', (code) => failed(new Error(`exit ${code}`)))
    thread.on('message', (answer: WorkerResponse) => {
      const waiter = waiting.get(answer.id)
      waiting.delete(answer.id)
      if ('error' in answer)
        waiter?.reject(
          answer.lost ? new StoreError('unavailable', answer.error) : new Error(answer.error),
        )
      else waiter?.resolve(answer.bytes)
      if (waiting.size === 0) endWhenIdle()
    })
    return thread
  }

  function rejectAll(failure: StoreError): void {
    for (const { reject } of waiting.values()) reject(failure)
    waiting.clear()
  }

  function endWhenIdle(): void {
    clearTimeout(idleTimer)
    idleTimer = setTimeout(() => void end(), idleTimeout).unref()
  }

  async function end(): Promise<void> {
    clearTimeout(idleTimer)
    const thread = worker
    worker = null
    await thread?.terminate()
  }

  return {
    async run(request) {
      // only this thread can use a database in memory
      if (url === 'sqlite::memory:') return report(store, request)
      if (waiting.size >= maxWaiting)
        throw new StoreError('overloaded', `${maxWaiting} reports are waiting`)
      clearTimeout(idleTimer)
      worker ??= start()
      const id = nextId++
      const answer = Promise.withResolvers<Uint8Array<ArrayBuffer>>()
      waiting.set(id, answer)
      worker.postMessage({ ...request, id } satisfies WorkerRequest)
      return answer.promise
    },
    async close() {
      // the listener would wait for these responses otherwise
      rejectAll(new StoreError('closed', 'the store is closed'))
      await end()
    },
  }
}
