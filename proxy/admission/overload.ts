/** Whether the node is overloaded: its requests in flight, its memory for bodies, its event loop (CONTRACT 3). */

/** Ticks of the timer that a window needs. */
const minTicks = 4

/**
 * Whether the event loop is overloaded: if the shortest lag in a window exceeds the target, after CoDel (RFC 8289).
 * After a single pause the shortest lag is small; in an overloaded loop it is not. An overloaded loop has no time to wait
 * for work. One that is late and has waited, for a tick or longer in a window, has nothing to refuse: other processes had the CPU.
 */
export class LoopLag {
  /** Seconds by which the last tick was late. */
  last = 0
  overloaded = false
  private shortest = Number.POSITIVE_INFINITY
  private ticks = 0
  private windowEnd: number
  private expected: number
  private idleBefore: number
  private readonly timer: NodeJS.Timeout

  /**
   * @param observe takes the lag of each tick, seconds
   * @param options milliseconds
   * @param now milliseconds
   * @param idle milliseconds for which the event loop has waited for work since it began
   */
  constructor(
    observe: (seconds: number) => void,
    options = { tick: 10, window: 200, target: 100 },
    now: () => number = () => performance.now(),
    idle: () => number = () => performance.eventLoopUtilization().idle,
  ) {
    this.idleBefore = idle()
    this.windowEnd = now() + options.window
    this.expected = now() + options.tick
    this.timer = setInterval(() => {
      const time = now()
      const lag = Math.max(0, time - this.expected)
      this.expected = time + options.tick
      this.last = lag / 1000
      observe(this.last)
      this.shortest = Math.min(this.shortest, lag)
      // A single long pause may fill a window: it says nothing about the ticks after it.
      if (++this.ticks < minTicks || time < this.windowEnd) return
      this.ticks = 0
      const waited = idle() - this.idleBefore
      this.overloaded = waited < options.tick && this.shortest > options.target
      this.shortest = Number.POSITIVE_INFINITY
      this.idleBefore += waited
      this.windowEnd = time + options.window
    }, options.tick)
    this.timer.unref()
  }

  close(): void {
    clearInterval(this.timer)
  }
}

/** Requests in flight, and bytes of their bodies in memory, for all suppliers. `kept`: those of the index of long documents. */
export interface Budget {
  inFlight: number
  bytes: number
  kept: number
}

/** The state and limits of the node that decide whether it accepts one more request. */
export interface Admission {
  budget: Budget
  lag: LoopLag
  limits: { maxInFlight: number; maxHeldBytes: number }
}

/**
 * Whether the node refuses a request: its event loop is late, or it has too many requests or bytes.
 *
 * @param admission the limits of this process, and what it holds now
 */
export const overloaded = ({ budget, lag, limits }: Admission): boolean =>
  budget.inFlight >= limits.maxInFlight || budget.bytes >= limits.maxHeldBytes || lag.overloaded
