/** Divides long work into slices, so that the event loop serves bid traffic between them. */

/** Milliseconds of a slice. */
const sliceMs = 1

export interface Slices {
  /** To be awaited between two steps of the work; yields to the event loop at the end of a slice. */
  next(): Promise<void> | undefined
}

/**
 * The result of a generator, which yields where the event loop may serve bid traffic.
 *
 * @param work what it throws rejects the promise
 */
export async function inSlices<T>(work: Generator<unknown, T>): Promise<T> {
  let slice = work.next()
  for (; !slice.done; slice = work.next()) await nextIteration()
  return slice.value
}

const nextIteration = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Slices of 1 ms, the first of which begins now.
 *
 * @param now milliseconds of a monotonic clock
 * @param yieldToLoop resolves when the event loop has served what waited
 *
 * @example
 * ```ts
 * const slices = createSlices()
 * for (const row of rows) {
 *   work(row)
 *   await slices.next()
 * }
 * ```
 */
export function createSlices(now = () => performance.now(), yieldToLoop = nextIteration): Slices {
  let sliceStart = now()
  return {
    next() {
      if (now() - sliceStart < sliceMs) return undefined
      return yieldToLoop().then(() => {
        sliceStart = now()
      })
    },
  }
}

/**
 * The result of work that is divided into slices, without a pause.
 *
 * @param slices is run to its end in this call
 */
export function drained<T>(slices: Iterator<unknown, T>): T {
  for (;;) {
    const slice = slices.next()
    if (slice.done) return slice.value
  }
}
