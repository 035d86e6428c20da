/** What the limiter measures: the latency of some requests, and its slope over the number in flight. */

const minRequests = 16
const maxRequests = 32

/**
 * The requests sent until the first of them ends, at least 16 and at most 32. The sample is whole when all have ended, so that short
 * latencies do not outweigh long ones.
 */
export class Sample {
  /** Requests that are sent now become part of it. */
  open = true
  size = 0
  ended = 0
  /** Milliseconds, of all that ended. */
  latencySum = 0
  /** Requests in flight when each of its requests was sent. */
  inFlightSum = 0
  /** The limit was reached meanwhile. */
  limitReached = false
  /** When the first and the last of its requests were sent. */
  private from = 0
  private until = 0

  add(now: number, inFlight: number): void {
    if (this.size === 0) this.from = now
    this.until = now
    this.inFlightSum += inFlight
    if (++this.size === maxRequests) this.open = false
  }

  end(sentAt: number, took: number, answered: boolean, limit: number): void {
    if (this.size === 0 || sentAt < this.from || (!this.open && sentAt > this.until)) return
    if (this.size >= Math.min(minRequests, limit)) this.open = false
    this.ended++
    // How long a request without a response would have taken is not known.
    this.latencySum += answered ? took : took * 2
  }

  /** `longest`: milliseconds after which every request has ended. One that is missing then was dropped. */
  isWhole(now: number, longest: number): boolean {
    return !this.open && this.ended > 0 && (this.ended >= this.size || now > this.until + longest)
  }

  begin(): void {
    this.open = true
    this.size = 0
    this.ended = 0
    this.latencySum = 0
    this.inFlightSum = 0
    this.limitReached = false
  }
}

/** About the last eight samples count. */
const weight = 1 / 8
/** Least variance of the logarithm of the number in flight for a slope: the number changes by a seventh. */
const minVariance = 0.02

/** Regression of the logarithm of the latency over that of the number in flight. Older samples count less. */
export class Slope {
  private x = 0
  private y = 0
  private xx = 0
  private xy = 0
  private empty = true

  /** The slope with this sample; 1, as for a queue, if the number in flight hardly changed. */
  add(inFlight: number, latency: number): number {
    const dx = Math.log(inFlight) - this.x
    const dy = Math.log(Math.max(latency, 0.01)) - this.y
    const share = this.empty ? 1 : weight
    this.empty = false
    this.x += dx * share
    this.y += dy * share
    this.xx += ((1 - share) * dx * dx - this.xx) * share
    this.xy += ((1 - share) * dx * dy - this.xy) * share
    return this.xx > minVariance ? this.xy / this.xx : 1
  }
}
