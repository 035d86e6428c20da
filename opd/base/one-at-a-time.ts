/** A job that runs without overlap. */
class ExclusiveJob<T> {
  private readonly job: () => Promise<T>
  private running: Promise<T> | null = null
  private next: Promise<T> | null = null

  constructor(job: () => Promise<T>) {
    this.job = job
  }

  /** The present run, or a new one. */
  share(): Promise<T> {
    this.running ??= this.job().finally(() => {
      this.running = null
    })
    return this.running
  }

  /** A run that begins after this call. */
  begin(): Promise<T> {
    this.next ??= this.afterRunning().then(() => {
      this.next = null
      this.running = this.job()
      return this.running
    })
    return this.next
  }

  /** A failure rejects the promise of its own callers only; the next run begins in any case. */
  private async afterRunning(): Promise<void> {
    await this.running?.catch(() => undefined)
  }
}

/** Runs different work, one after the other, in the order of the calls. */
export class WorkQueue {
  private last: Promise<unknown> = Promise.resolve()

  /** @param work its rejection reaches this caller only; the next work begins in any case */
  enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.last.then(work)
    this.last = result.catch(() => undefined)
    return result
  }
}

/**
 * Runs a job without overlap. All calls during a run share it.
 *
 * @param job its rejection reaches all callers of that run
 */
export function shareRun<T>(job: () => Promise<T>): () => Promise<T> {
  const exclusive = new ExclusiveJob(job)
  return () => exclusive.share()
}

/**
 * Runs a job without overlap. All calls during a run share one further run, which begins when the present one ends.
 *
 * @param job is called with nothing else of it running; its rejection reaches the callers of that run
 */
export function oneAtATime<T>(job: () => Promise<T>): () => Promise<T> {
  const exclusive = new ExclusiveJob(job)
  return () => exclusive.begin()
}
