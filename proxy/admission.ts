/** Admission before work: data center, allotment, bounds, and the load of the event loop (CONTRACT 3). */

export type Refusal = 'inactive' | 'qps' | 'overload'

/** What the directory says of this supplier at this node's location. */
export interface Allotment {
  active: boolean
  /** Queries per second of the whole location; null: no limit. */
  clientQps: number | null
}

/** A token bucket, max(2, 0.1 s of the allotment) deep. `now` is in milliseconds and may be any monotonic clock. */
export class Bucket {
  private tokens: number
  private last: number
  private readonly perMs: number
  private readonly depth: number

  constructor(perSecond: number, now: number) {
    this.perMs = perSecond / 1000
    this.depth = perSecond === 0 ? 0 : Math.max(2, perSecond / 10)
    this.tokens = this.depth
    this.last = now
  }

  take(now: number): boolean {
    this.tokens = Math.min(this.depth, this.tokens + (now - this.last) * this.perMs)
    this.last = now
    if (this.tokens < 1) return false
    this.tokens -= 1
    return true
  }

  /** The token of a request that was not sent after all. */
  giveBack(): void {
    this.tokens = Math.min(this.depth, this.tokens + 1)
  }
}

/** Turns of the loop that a verdict on it takes. */
const leastTicks = 4

/**
 * Whether the event loop keeps up: the shortest lag seen in a window, after CoDel (RFC 8289). A single pause
 * leaves the shortest lag small; a loop that never catches up does not.
 */
export class LoopLag {
  /** Seconds by which the last tick was late. */
  last = 0
  overloaded = false
  private shortest = Number.POSITIVE_INFINITY
  private ticks = 0
  private windowEnd: number
  private expected: number
  private readonly timer: NodeJS.Timeout

  constructor(
    observe: (seconds: number) => void,
    options = { tick: 10, window: 200, target: 100 },
    now: () => number = () => performance.now(),
  ) {
    this.windowEnd = now() + options.window
    this.expected = now() + options.tick
    this.timer = setInterval(() => {
      const at = now()
      const lag = Math.max(0, at - this.expected)
      this.expected = at + options.tick
      this.last = lag / 1000
      observe(this.last)
      this.shortest = Math.min(this.shortest, lag)
      // One long pause fills a window by itself: it says nothing about the turns after it.
      if (++this.ticks < leastTicks || at < this.windowEnd) return
      this.ticks = 0
      this.overloaded = this.shortest > options.target
      this.shortest = Number.POSITIVE_INFINITY
      this.windowEnd = at + options.window
    }, options.tick)
    this.timer.unref()
  }

  close(): void {
    clearInterval(this.timer)
  }
}

/** Bytes of requests and answers held at the moment, all suppliers together. */
export interface Budget {
  inFlight: number
  bytes: number
}

/** What of the node decides whether it takes one more. */
export interface Admission {
  budget: Budget
  lag: LoopLag
  limits: { maxInFlight: number; maxHeldBytes: number }
}

export const overloaded = ({ budget, lag, limits }: Admission): boolean =>
  budget.inFlight >= limits.maxInFlight || budget.bytes >= limits.maxHeldBytes || lag.overloaded
