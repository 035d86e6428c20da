/** A job that runs once at a time: who asks during a run shares the next one, which begins when that one is over. */
export function oneAtATime<T>(job: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | null = null
  return () => {
    next ??= running.then(() => {
      next = null
      const run = job()
      // those who asked for it hear of its failure; the next one runs all the same
      running = run.catch(() => undefined)
      return run
    })
    return next
  }
}
