/** Runs a job without overlap. All calls during a run share it. */
export function shareRun<T>(job: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | null = null
  return () => {
    running ??= job().finally(() => {
      running = null
    })
    return running
  }
}

/**
 * Runs a job without overlap. All calls during a run share one further run, which begins when the present one ends.
 *
 * @param job is called with nothing else of it running; its rejection reaches the callers of that run
 */
export function oneAtATime<T>(job: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | null = null
  return () => {
    next ??= running.then(() => {
      next = null
      const run = job()
      // A failure rejects the promise of its own callers only; the next run begins in any case.
      running = run.catch(() => undefined)
      return run
    })
    return next
  }
}
