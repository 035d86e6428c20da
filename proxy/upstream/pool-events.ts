/** What a connection tells those who hold it. */
export interface Owner<C> {
  /** Its answer is whole and it may carry another request. */
  release(connection: C): void
  /** It is gone. */
  forget(connection: C): void
  /** Connecting to this address failed. */
  failed(address: string): void
}

/**
 * A host that is gone says nothing at all. One that nobody heard of for so long, milliseconds, counts as failed when
 * its request is given up: a round trip takes less, and a very short tmax says nothing.
 */
export const deaf = 50

/** Shorter than what servers keep (nginx 75 s, Node 5 s, Apache 5 s); a Keep-Alive hint may shorten it. */
export const idleTimeout = 4000
/** A server that says when it closes is left alone this long before: its close and our request may cross. */
const hintMargin = 2000

/** Milliseconds that a connection may be idle, by the supplier's `Keep-Alive: timeout`; 0: not at all. */
export function spareOf(hint: number): number {
  return Math.max(0, Math.min(idleTimeout, hint - hintMargin))
}
