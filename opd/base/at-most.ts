/**
 * Resolves when the work is done, or after `ms` milliseconds; the work then continues. Rejects if the work fails before.
 *
 * @param ms 0 or more
 */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  try {
    await Promise.race([work, over])
  } finally {
    clearTimeout(timer)
  }
}
