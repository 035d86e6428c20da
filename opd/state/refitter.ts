/**
 * Refits the models on a worker thread, one at a time, and applies the results. The thread starts with the first job. If a model
 * was rolled back or frozen meanwhile, the result is ignored.
 */
import type { Worker } from 'node:worker_threads'
import type { Log } from '../base/log.ts'
import { startInBackground } from './background-thread.ts'
import type { ManagedLearner } from './managed-learner.ts'
import type { RefitResponse } from './refit-worker.ts'

/** Share of a core that refits may take. */
const maxShare = 0.03
/** Milliseconds after which a refit, which takes seconds, is ended. */
const maxTime = 600_000

interface Running {
  learner: ManagedLearner
  /** The model that the job is from. */
  inner: ManagedLearner['inner']
  since: number
}

export class Refitter {
  /** Refits that were applied, and that failed. */
  readonly counts = { applied: 0, failed: 0 }
  private readonly log: Log
  private readonly applied: (learner: ManagedLearner, result: Uint8Array) => void
  private worker: Worker | null = null
  private running: Running | null = null
  /** Milliseconds of `performance.now()`. */
  private idleUntil = 0

  /** `applied` is called with each result that was applied. */
  constructor(log: Log, applied: (learner: ManagedLearner, result: Uint8Array) => void) {
    this.log = log
    this.applied = applied
  }

  /** Seconds since the refit that runs began; 0: none runs. */
  get seconds(): number {
    return this.running === null ? 0 : (performance.now() - this.running.since) / 1000
  }

  /** Starts a refit of the first model for which one is due, and ends one that takes too long. */
  poll(learners: Iterable<ManagedLearner>, now: number): void {
    // The exit of its thread counts as a failure of the refit.
    if (this.seconds * 1000 > maxTime) void this.worker?.terminate()
    if (this.running !== null || performance.now() < this.idleUntil) return
    for (const learner of learners) {
      const job = learner.inner.refitJob(now)
      if (job === null) continue
      this.running = { learner, inner: learner.inner, since: performance.now() }
      this.worker ??= this.start()
      this.worker.postMessage(job, [job.buffer as ArrayBuffer])
      return
    }
  }

  private start(): Worker {
    const name = import.meta.url.endsWith('.ts') ? './refit-worker.ts' : './refit-worker.js'
    const thread = startInBackground(new URL(name, import.meta.url))
    thread.unref()
    thread.on('message', (response: RefitResponse) => this.finish(response))
    const ended = (error: string) => {
      if (this.worker !== thread) return
      this.worker = null
      this.finish({ error })
    }
    thread.on('error', (error) => ended((error as Error).message))
    thread.on('exit', (code) => ended(`exit ${code}`))
    return thread
  }

  private finish(response: RefitResponse): void {
    const { running } = this
    if (running === null) return
    this.running = null
    const elapsed = performance.now() - running.since
    this.idleUntil = performance.now() + elapsed / maxShare
    if ('error' in response) {
      this.counts.failed++
      this.log.error({ err: response.error }, 'a refit failed, the model continues to learn')
      return
    }
    const { learner, inner } = running
    if (learner.inner !== inner || learner.isFrozen) return
    inner.applyRefit(response.result)
    this.counts.applied++
    this.applied(learner, response.result)
  }

  async close(): Promise<void> {
    const thread = this.worker
    this.worker = null
    this.running = null
    await thread?.terminate()
  }
}
