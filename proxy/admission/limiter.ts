/**
 * How many requests may be at a supplier at once. It is a gradient limiter as in Netflix concurrency-limits and Envoy
 * adaptive concurrency: the limit becomes number in flight x wanted latency / measured latency. Two things differ.
 * The wanted latency is half of the time that a request has, since a queue in which requests are still answered in
 * time does no harm. The slope of the latency over the number in flight tells a queue from a supplier that is slow by
 * itself: it is near 1 (of the logarithms) for a queue, near 0 for a slow supplier.
 *
 * Until a queue is seen the limit grows by one for each response (slow start, RFC 5681 3.1), and stops growing when the
 * latency rises (HyStart++, RFC 9406). Then it is set to throughput x wanted latency (Little's law).
 *
 * Latency is measured by samples (limiter-sample.ts). Time is milliseconds of any monotonic clock.
 */
import { Sample, Slope } from './limiter-sample.ts'

/**
 * The limit before anything is known of the supplier. A supplier with 4 slots of 100 ms answers 20 requests within 500 ms.
 * At 500 requests/s, 100 ms of latency and deadlines of 120 ms, about 200 are refused until the limit has grown.
 */
export const firstLimit = 20
/** The wanted latency, as a share of the time that a request has. */
const wantedShare = 0.5
/** If a supplier is slower than that even without a queue: the wanted latency and the tolerable one, as multiples of its own. */
const wantedOverOwn = 1.15
const tooLongOverOwn = 1.5
/** The first requests, whose mean latency is the supplier's own until there is a sample. */
const firstRequests = 8
/** Milliseconds for which a safe number in flight is remembered. The limit does not fall below half of that number. */
const safeFor = 3000

export class Limiter {
  /** A fraction, so that slow growth adds up. */
  limit = firstLimit
  inFlight = 0
  /** Milliseconds that a request takes, on average; 0: not known yet. */
  latency = 0
  /** Milliseconds from the arrival of a request to its deadline, on average. */
  timeBudget = 0
  /** No queue is seen at the supplier: the limit may double with each round trip. */
  growing = true
  /** Milliseconds that the supplier takes without a queue: by the first requests, `ownCount` so far, then by samples. */
  private ownLatency = 0
  private ownCount = 0
  private sampled = false
  private fixed = false
  private highest = Number.POSITIVE_INFINITY
  private readonly sample = new Sample()
  private readonly slope = new Slope()
  /** Until then the supplier still works on requests that were sent before the limit fell: they are not sampled. */
  private settledAt = 0
  /** The number in flight with which the latency was last not too long, and the time of that. */
  private safeInFlight = 0
  private safeAt = 0
  /** Responses per millisecond, and those counted for the next figure. */
  private throughput = 0
  private responses = 0
  private countedSince = 0
  /** When a request was last sent while none was in flight, and the responses since; null: the first queue was seen. */
  private burst: { since: number; responses: number } | null = { since: 0, responses: 0 }

  /** `limit`: a fixed limit; null: adaptive. `highest` bounds both. */
  configure(limit: number | null, highest: number): void {
    if (this.fixed !== (limit !== null)) this.growing = limit === null
    this.fixed = limit !== null
    this.highest = highest
    this.limit = Math.min(limit ?? this.limit, highest)
  }

  get full(): boolean {
    return this.inFlight + 1 > this.limit
  }

  /** A request arrived; `time`: milliseconds until its deadline. */
  arrived(time: number): void {
    this.timeBudget = this.timeBudget === 0 ? time : this.timeBudget + (time - this.timeBudget) / 16
  }

  sent(now: number): void {
    if (this.inFlight++ === 0 && this.burst !== null) this.burst = { since: now, responses: 0 }
    if (this.fixed) return
    if (this.full) this.sample.limitReached = true
    if (this.sample.open && now >= this.settledAt) this.sample.add(now, this.inFlight)
  }

  /** A request ended in a way that says nothing about the load of the supplier. */
  dropped(): void {
    this.inFlight--
  }

  /** A request ended: with its response, or (`answered` false) at its deadline. */
  finished(sentAt: number, now: number, answered: boolean): void {
    const { sample, full, timeBudget } = this
    const took = now - sentAt
    this.inFlight--
    // Most of its time had passed in the queue of the gate, before the supplier got it.
    if (!answered && took < timeBudget * wantedShare) return
    this.latency = this.latency === 0 ? took : this.latency + (took - this.latency) / 8
    if (this.fixed) return
    if (!this.sampled && this.ownCount < firstRequests)
      this.ownLatency += (took - this.ownLatency) / ++this.ownCount
    this.updateThroughput(now, answered)
    if (this.growing) this.grow(took, now, full && answered)
    sample.end(sentAt, took, answered, this.limit)
    if (sample.isWhole(now, timeBudget)) {
      this.adjust(sample.inFlightSum / sample.size, sample.latencySum / sample.ended, now)
      sample.begin()
    }
  }

  private updateThroughput(now: number, answered: boolean): void {
    if (answered) {
      this.responses++
      if (this.burst !== null) this.burst.responses++
    }
    const elapsed = now - this.countedSince
    if (elapsed < this.latency) return
    this.throughput = this.responses / elapsed
    this.responses = 0
    this.countedSince = now
  }

  private grow(took: number, now: number, limitReached: boolean): void {
    const { ownLatency, tooLong } = this
    const certain = this.sampled ? tooLong : Math.max(tooLong, ownLatency * 2)
    if (took > tooLong && this.latency > certain) {
      this.growing = false
      this.lowerTo(this.throughput * this.wanted, now)
      this.sample.begin()
    } else if (this.burst !== null && took > ownLatency * tooLongOverOwn)
      this.firstQueue(this.burst, now)
    else if (limitReached && took <= this.wanted && took <= ownLatency * tooLongOverOwn)
      this.limit = Math.min(this.highest, this.limit + 1)
  }

  /**
   * The first response within a burst that took longer than those before it. To wait for a sample would fill the queue of
   * a small supplier with requests that are late: 5 % of the goodput of ten seconds.
   */
  private firstQueue({ since, responses }: { since: number; responses: number }, now: number) {
    if (!this.sample.limitReached || now - since > this.timeBudget) return
    this.burst = null
    this.limit = Math.max(1, Math.min(this.limit, (responses / (now - since)) * this.wanted))
  }

  private lowerTo(limit: number, now: number): void {
    this.limit = Math.min(this.limit, Math.max(1, limit))
    this.settledAt = now + this.timeBudget * wantedShare
  }

  /** Milliseconds that a request is to take while the limit is reached. */
  private get wanted(): number {
    return Math.max(this.timeBudget * wantedShare, this.ownLatency * wantedOverOwn)
  }

  private get tooLong(): number {
    return Math.max(this.timeBudget * wantedShare, this.ownLatency * tooLongOverOwn)
  }

  /** Sets the limit by a whole sample: its mean number in flight, and its mean latency in milliseconds. */
  private adjust(inFlight: number, mean: number, now: number): void {
    const { timeBudget } = this
    const { limitReached } = this.sample
    if (mean < timeBudget) this.updateOwnLatency(inFlight, mean, limitReached)
    const { wanted, tooLong, ownLatency } = this
    // Below the limit only requests that are late count.
    if (mean > (limitReached ? tooLong : Math.max(tooLong, timeBudget * 0.9))) {
      this.growing = false
      const least = now - this.safeAt < safeFor ? this.safeInFlight / 2 : 1
      this.lowerTo(Math.max(least, inFlight * Math.max(0.5, wanted / mean)), now)
      return
    }
    this.safeInFlight = inFlight
    this.safeAt = now
    const next = (inFlight * wanted) / mean
    if (!limitReached || mean * 2 <= wanted) this.growing = true
    else if (this.growing && mean > ownLatency * tooLongOverOwn) {
      this.growing = false
      this.limit = Math.min(this.limit, next)
      return
    } else if (this.growing) return
    if (limitReached && mean < wanted)
      this.limit = Math.min(this.highest, Math.max(this.limit + 0.25, Math.min(inFlight * 2, next)))
  }

  /** A sample shows the supplier's own latency if the limit was not reached, or if the latency does not follow the number. */
  private updateOwnLatency(inFlight: number, mean: number, limitReached: boolean): void {
    const slope = this.slope.add(inFlight, mean)
    const isSlow = mean * wantedOverOwn > this.timeBudget * wantedShare
    if (limitReached && mean >= this.ownLatency && !(isSlow && slope < 0.5)) return
    this.ownLatency += (mean - this.ownLatency) / (this.sampled || limitReached ? 4 : 1)
    this.sampled ||= !limitReached || mean >= this.ownLatency
    if (limitReached && slope < 0.25) this.growing = true
  }
}
