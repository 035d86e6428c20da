/** The requests from which the limiter takes its measurements. Time is milliseconds of any monotonic clock. */

/** Time-outs beyond the expected number that are chance, in standard deviations. With one, a supplier that is late for half seems overloaded every few minutes. */
const chanceDeviations = 1.5

/**
 * The requests sent until the first of them ends, within bounds. It is whole when all have ended: short latencies do not
 * outweigh long ones.
 */
export class Sample {
  /** Requests that are sent later become part of it. */
  private open = true
  /** The limit was reached meanwhile. */
  limitReached = false
  private size = 0
  private answered = 0
  private late = 0
  /** Milliseconds of the requests that were answered, and of those that were not. */
  private answeredTime = 0
  private lateTime = 0
  /** Requests in flight when each of its requests was sent, and when it ended. */
  private sentInFlight = 0
  private endedInFlight = 0
  /** When the first and the last of its requests were sent. */
  private from = 0
  private until = 0

  add(now: number, inFlight: number, most: number): void {
    if (this.size === 0) this.from = now
    this.until = now
    this.sentInFlight += inFlight
    if (++this.size >= most) this.open = false
  }

  /** Those of one moment belong together: their ends cannot be told apart. */
  takes(now: number): boolean {
    return this.open || (this.size > 0 && now === this.until)
  }

  private contains(sentAt: number): boolean {
    return this.size > 0 && sentAt >= this.from && (this.open || sentAt <= this.until)
  }

  end(sentAt: number, took: number, answered: boolean, least: number, inFlight: number): void {
    if (!this.contains(sentAt)) return
    if (this.size >= least) this.open = false
    this.endedInFlight += inFlight
    if (answered) {
      this.answered++
      this.answeredTime += took
    } else {
      this.late++
      this.lateTime += took
    }
  }

  /** The request ended in a way that says nothing. */
  drop(sentAt: number): void {
    if (!this.contains(sentAt)) return
    this.sentInFlight -= this.sentInFlight / this.size
    if (--this.size === 0) this.begin()
  }

  get isWhole(): boolean {
    return !this.open && this.ended > 0 && this.ended >= this.size
  }

  get ended(): number {
    return this.answered + this.late
  }

  get inFlight(): number {
    return (this.sentInFlight / this.size + this.endedInFlight / this.ended) / 2
  }

  /** Mean milliseconds of the answered requests. */
  get latency(): number {
    return this.answered === 0 ? Number.POSITIVE_INFINITY : this.answeredTime / this.answered
  }

  /** Milliseconds in flight for each answer, those of the requests that were not answered included. */
  get cost(): number {
    if (this.answered === 0) return Number.POSITIVE_INFINITY
    return (this.answeredTime + this.lateTime) / this.answered
  }

  /** Mean milliseconds after which the others had timed out. */
  get lateAfter(): number {
    return this.late === 0 ? 0 : this.lateTime / this.late
  }

  /** The share answered in time. */
  get share(): number {
    return this.answered / this.ended
  }

  /** Milliseconds, for each answer, of the time-outs beyond this share of the requests, and beyond chance. */
  excess(lateShare: number): number {
    if (this.late === 0 || this.answered === 0) return 0
    const expected = this.ended * lateShare
    const chance = chanceDeviations * Math.sqrt(expected + 1)
    const unexpected = this.late - expected - chance
    return (Math.max(0, unexpected) * this.lateTime) / this.late / this.answered
  }

  begin(): void {
    this.open = true
    this.limitReached = false
    this.size = this.answered = this.late = 0
    this.answeredTime = this.lateTime = this.sentInFlight = this.endedInFlight = 0
  }
}
