/** Asks until what another thread or process does is seen; how many milliseconds that took. The runner ends it. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  every = 20,
): Promise<number> {
  const began = performance.now()
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, every))
  return performance.now() - began
}
