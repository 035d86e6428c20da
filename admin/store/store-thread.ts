/**
 * Jobs that only read the store, on a worker thread with a connection of its own: on the main thread, a report on 50,000
 * publishers blocked bid traffic for 250 ms. The thread is started on demand and ended when it is idle.
 */
import { parentPort, type Worker, workerData } from 'node:worker_threads'
import { startInBackground } from '../../opd/state/background-thread.ts'
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

/**
 * Called by the module of a thread: runs the jobs that it is sent.
 *
 * @param run a job; what it throws rejects the caller in the other thread
 */
export async function serveJobs<Job>(run: Run<Job>): Promise<void> {
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

/** Maximum of waiting jobs; more are refused. */
const maxWaiting = 32
/** Milliseconds until an idle thread is ended. */
const idleTimeout = 60_000

interface StoreThreadOptions<Job> {
  /** What the thread runs; it calls `serveJobs`. */
  module: URL
  /** Does the same as the thread, for a database in memory, which only this thread can use. */
  here: Run<Job>
}

export class StoreThread<Job> {
  private readonly store: Pick<Store, 'db' | 'postgres' | 'url'>
  private readonly options: StoreThreadOptions<Job>
  private readonly waiting = new Map<number, PromiseWithResolvers<Bytes>>()
  /** null: it was not needed yet, or was idle. */
  private worker: Worker | null = null
  private idleTimer: NodeJS.Timeout | undefined
  private nextId = 0

  constructor(store: Pick<Store, 'db' | 'postgres' | 'url'>, options: StoreThreadOptions<Job>) {
    this.store = store
    this.options = options
  }

  /**
   * Resolves with what the thread made of the job. Jobs run one after another.
   *
   * @param job a value that can be cloned (`structuredClone`)
   * @throws StoreError if the store is lost, closed or overloaded; the error of the job as an Error of its message
   */
  async run(job: Job): Promise<Bytes> {
    const { store, waiting } = this
    if (store.url === 'sqlite::memory:') return this.options.here(store, job)
    if (waiting.size >= maxWaiting)
      throw new StoreError('overloaded', `${maxWaiting} jobs are waiting`)
    clearTimeout(this.idleTimer)
    this.worker ??= this.start()
    const id = this.nextId++
    const answer = Promise.withResolvers<Bytes>()
    waiting.set(id, answer)
    this.worker.postMessage({ id, job } satisfies Request<Job>)
    return answer.promise
  }

  async close(): Promise<void> {
    // the listener would wait for these responses otherwise
    this.rejectAll(new StoreError('closed', 'the store is closed'))
    await this.end()
  }

  private start(): Worker {
    const thread = startInBackground(this.options.module, { workerData: this.store.url })
    thread.unref()
    const failed = (error: Error) => {
      if (this.worker !== thread) return
      this.worker = null
      const message = `the thread of the store ended: ${error.message}`
      this.rejectAll(new StoreError('unavailable', message))
    }
    thread.on('error', failed)
    thread.on('exit', (code) => failed(new Error(`exit ${code}`)))
    thread.on('message', (answer: Response) => this.receive(answer))
    return thread
  }

  private receive(answer: Response): void {
    const waiter = this.waiting.get(answer.id)
    this.waiting.delete(answer.id)
    if ('error' in answer)
      waiter?.reject(
        answer.lost ? new StoreError('unavailable', answer.error) : new Error(answer.error),
      )
    else waiter?.resolve(answer.bytes)
    if (this.waiting.size === 0) this.endWhenIdle()
  }

  private rejectAll(failure: StoreError): void {
    for (const { reject } of this.waiting.values()) reject(failure)
    this.waiting.clear()
  }

  private endWhenIdle(): void {
    clearTimeout(this.idleTimer)
    this.idleTimer = setTimeout(() => void this.end(), idleTimeout).unref()
  }

  private async end(): Promise<void> {
    clearTimeout(this.idleTimer)
    const thread = this.worker
    this.worker = null
    await thread?.terminate()
  }
}
