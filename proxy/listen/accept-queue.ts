/** A good moment to close a listener. */

/** Milliseconds that it stays open for connections which keep coming. */
const longest = 500
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Resolves in a turn of the loop that brought no connection: those that wait to be accepted, their requests with them,
 * are reset when the listener closes. libuv accepts one a turn.
 */
export async function quiet(accepted: () => number): Promise<void> {
  const end = performance.now() + longest
  for (let before = -1; before !== accepted() && performance.now() < end; ) {
    before = accepted()
    // The second one is behind another look at the listener.
    await nextTurn()
    await nextTurn()
  }
}
