/**
 * Jobs that only read the store, on a worker thread with a connection of its own: on the main thread, a report on 50,000
 * publishers blocked bid traffic for 250 ms. The thread is started on demand and ended when it is idle.
 */
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { runInBackground } from '../../opd/base/background-thread.ts'
import { StoreError } from './errors.ts'
import type { Store } from './index.ts'
import { openReader } from './reader.ts'

/** A connection for reading. */
type Reader = Pick<Store, 'db' | 'postgres'>
type Bytes = Uint8Array<ArrayBuffer>
/** The result has a buffer of its own, so that it can be transferred to another thread. */
type Run<Job> = (reader: Reader, job: Job) => Promise<Bytes>

interface Request<Job> {
  id: number
  job: Job
}
type Response = { id: number; bytes: Bytes } | { id: number; error: string; lost: boolean }

/** Called by the module of a thread: runs the jobs that it is sent. */
export async function serveJobs<Job>(run: Run<Job>): Promise<void> {
  runInBackground()
  const reader = await openReader(workerData as string)
  let last = Promise.resolve()

  async function answer({ id, job }: Request<Job>): Promise<void> {
    try {
      const bytes = await run(reader, job)
      parentPort!.postMessage({ id, bytes } satisfies Response, [bytes.buffer])
    } catch (error) {
      const lost = error instanceof StoreError
      parentPort!.postMessage({ id, error: (error as Error).message, lost } satisfies Response)
    }
  }

  parentPort!.on('message', (request: Request<Job>) => {
    // one at a time, since each job may read the whole ledger
    last = last.then(() => answer(request))
  })
}

export interface StoreThread<Job> {
  /** Rejects with a StoreError if the store is lost, closed or overloaded. */
  run(job: Job): Promise<Bytes>
  close(): Promise<void>
}

/** Maximum of waiting jobs; more are refused. */
const maxWaiting = 32
/** Milliseconds until an idle thread is ended. */
const idleTimeout = 60_000

/** `here` does the same as the thread, for a database in memory, which only this thread can use. */
export function createStoreThread<Job>(
  store: Pick<Store, 'db' | 'postgres' | 'url'>,
  { module, here }: { module: URL; here: Run<Job> },
): StoreThread<Job> {
  const { url } = store
  const waiting = new Map<number, PromiseWithResolvers<Bytes>>()
  let worker: Worker | null = null
  let idleTimer: NodeJS.Timeout | undefined
  let nextId = 0

  function start(): Worker {
    const thread = new Worker(module, { workerData: url })
    thread.unref()
    const failed = (error: Error) => {
      if (worker !== thread) return
      worker = null
      rejectAll(new StoreError('unavailable', `the thread of the store ended: ${error.message}`))
    }
    thread.on('error', failed)
    thread.on('exit', (code) => failed(new Error(`exit ${code}`)))
    thread.on('message', (answer: Response) => {
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
    async run(job) {
      if (url === 'sqlite::memory:') return here(store, job)
      if (waiting.size >= maxWaiting)
        throw new StoreError('overloaded', `${maxWaiting} jobs are waiting`)
      clearTimeout(idleTimer)
      worker ??= start()
      const id = nextId++
      const answer = Promise.withResolvers<Bytes>()
      waiting.set(id, answer)
      worker.postMessage({ id, job } satisfies Request<Job>)
      return answer.promise
    },
    async close() {
      // the listener would wait for these responses otherwise
      rejectAll(new StoreError('closed', 'the store is closed'))
      await end()
    },
  }
}
