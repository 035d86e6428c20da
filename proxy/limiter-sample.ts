/** What the limiter measures: the latency of some requests, and its slope over the number in flight. */

const smallest = 16
const largest = 32

/**
 * The requests sent until the first of them ends, but 16 to 32. It is whole when all have ended, so that short answers
 * do not outweigh long ones, and has the number that was in flight when they were sent.
 */
export class Sample {
  /** More requests become part of it. */
  open = true
  size = 0
  ended = 0
  /** Milliseconds, of all that ended. */
  sum = 0
  /** Requests in flight, summed over the requests sent. */
  crowd = 0
  /** The limit was reached meanwhile. */
  reached = false
  /** When the first and the last of its requests were sent. */
  private from = 0
  private until = 0

  add(now: number, inFlight: number): void {
    if (this.size === 0) this.from = now
    this.until = now
    this.crowd += inFlight
    if (++this.size === largest) this.open = false
  }

  end(sentAt: number, took: number, answered: boolean, limit: number): void {
    if (this.size === 0 || sentAt < this.from || (!this.open && sentAt > this.until)) return
    if (this.size >= Math.min(smallest, limit)) this.open = false
    this.ended++
    // How late it would have been is not known.
    this.sum += answered ? took : took * 2
  }

  /** `longest`: milliseconds after which a request has ended; what is missing then was dropped. */
  isWhole(now: number, longest: number): boolean {
    return !this.open && this.ended > 0 && (this.ended >= this.size || now > this.until + longest)
  }

  begin(): void {
    this.open = true
    this.size = 0
    this.ended = 0
    this.sum = 0
    this.crowd = 0
    this.reached = false
  }
}

/** Of the last eight samples or so. */
const weight = 1 / 8
/** Variance of the logarithm of the number in flight that shows anything: it changes by a seventh. */
const telling = 0.02

/** Regression of the logarithm of the latency over that of the number in flight, older samples count less. */
export class Slope {
  private x = 0
  private y = 0
  private xx = 0
  private xy = 0
  private empty = true

  /** The slope with this sample; 1, that of a queue, where the number in flight hardly changed. */
  add(crowd: number, latency: number): number {
    const dx = Math.log(crowd) - this.x
    const dy = Math.log(Math.max(latency, 0.01)) - this.y
    const share = this.empty ? 1 : weight
    this.empty = false
    this.x += dx * share
    this.y += dy * share
    this.xx += ((1 - share) * dx * dx - this.xx) * share
    this.xy += ((1 - share) * dx * dy - this.xy) * share
    return this.xx > telling ? this.xy / this.xx : 1
  }
}
