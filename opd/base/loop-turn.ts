/**
 * Bounds the work of one turn of the event loop, over all that share one object: what finds the turn spent waits for a later
 * one, in the order of arrival. Slices of each task alone would not do: libuv reads a socket 32 times in one turn, and the
 * slices of many tasks would follow one another in one turn.
 */

/** Milliseconds of work in one turn. */
const turnMs = 2

/** One object for all that share the bound: 2 ms of work in each turn. */
export class LoopTurn {
  private began = 0
  private hasBegun = false
  private readonly waiting: (() => void)[] = []

  /** Whether the work of this turn has taken its time. */
  get isSpent(): boolean {
    const now = performance.now()
    if (this.hasBegun) return now - this.began >= turnMs
    this.begin(now)
    return false
  }

  /**
   * Calls `work` now, or in a later turn if this one is spent.
   *
   * @param work must not throw
   */
  run(work: () => void): void {
    if (this.isSpent) this.wait(work)
    else work()
  }

  /** @param work called in a later turn, after what waits already; must not throw */
  wait(work: () => void): void {
    if (!this.hasBegun) this.begin(performance.now())
    this.waiting.push(work)
  }

  /** Resolves in a later turn. */
  next(): Promise<void> {
    return new Promise((resolve) => this.wait(resolve))
  }

  private begin(now: number): void {
    this.began = now
    this.hasBegun = true
    setImmediate(this.end)
  }

  private readonly end = (): void => {
    this.hasBegun = false
    if (this.waiting.length > 0) this.runNext()
  }

  private readonly runNext = (): void => {
    if (this.isSpent) return
    const work = this.waiting.shift()
    if (work === undefined) return
    work()
    // Work that is a promise continues in a microtask of its own before this one.
    queueMicrotask(this.runNext)
  }
}
