/** Waiting for a condition: the only place below test/ that sleeps and polls. */
interface Wait {
  /** Named by the error; if absent, the source of the condition is. */
  what?: string
  /** Milliseconds. Long, because the machine may be busy. */
  limit?: number
}

/** Milliseconds for a server of seconds of CPU to start, and for what needs several of them, on a machine at load 20. */
export const startLimit = 450_000

/** Resolves when the condition holds, with the milliseconds that took; rejects if it does not hold within the limit. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  { what = String(condition), limit = 60_000 }: Wait = {},
): Promise<number> {
  const began = performance.now()
  // A condition may itself hang, on a response that never comes: the limit covers that as well.
  const late = Promise.withResolvers<never>()
  const error = new Error(`not within ${limit} ms: ${what}`)
  const timer = setTimeout(() => late.reject(error), limit)
  let pause = 1
  try {
    while (!(await Promise.race([condition(), late.promise]))) {
      await Promise.race([new Promise((resolve) => setTimeout(resolve, pause)), late.promise])
      // a long wait is not spent on asking
      pause = Math.min(2 * pause, Math.max(50, (performance.now() - began) / 20), 250)
    }
  } finally {
    clearTimeout(timer)
  }
  return performance.now() - began
}

/** Lets time pass where time itself is under test, or where a thing must not happen: `why` says which. */
export const timePasses = (ms: number, _why: string): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms))

/** Holds the event loop for so many milliseconds, where that itself is under test. */
export function holdLoop(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}
