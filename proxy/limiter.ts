/**
 * How many requests may be at a supplier at once. It is a gradient limiter as in Netflix concurrency-limits and Envoy
 * adaptive concurrency: the limit becomes number in flight x wanted latency / measured latency. Two things differ.
 * The wanted latency is half of the time that a request has, since a queue in which requests are still answered in
 * time does no harm. Whether a longer latency is that of a queue or of the supplier itself is seen from the slope of the
 * latency over the number in flight: it is near 1 (of the logarithms) for a queue, near 0 for the supplier itself.
 *
 * Until a queue is seen the limit grows by one for each answer (slow start, RFC 5681 3.1), and stops to grow when the
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
/** Share of its time that a request may spend at a supplier. */
const comfortable = 0.5
/** The wanted latency of a supplier that takes longer than that by itself, and where it is too long; times its own. */
const wantedOfOwn = 1.15
const tooMuchOfOwn = 1.5
/** Requests whose latency is taken for the supplier's own before there is a sample. */
const firstRequests = 8
/** Milliseconds for which a number in flight that did no harm is remembered; the limit is half of it at least. */
const memory = 3000

export class Limiter {
  /** A fraction, so that slow growth adds up. */
  limit = firstLimit
  inFlight = 0
  /** Milliseconds that a request takes, on average; 0: not known yet. */
  latency = 0
  /** Milliseconds from the arrival of a request to its deadline, on average. */
  patience = 0
  /** No queue is seen at the supplier: the limit may double with each round trip. */
  growing = true
  /** Milliseconds that the supplier takes by itself; of `known` requests, until a sample shows it. */
  private own = 0
  private known = 0
  private sampled = false
  private fixed = false
  private highest = Number.POSITIVE_INFINITY
  private readonly sample = new Sample()
  private readonly slope = new Slope()
  /** Until then the supplier is still busy with what was sent before the limit fell. */
  private settled = 0
  /** The number in flight that last did no harm, and when. */
  private harmless = 0
  private harmlessAt = 0
  /** Answers per millisecond, and the count for the next figure. */
  private rate = 0
  private answers = 0
  private countedSince = 0
  /** When a request was last sent while none was in flight, and the answers since; null: the first queue was seen. */
  private busy: { since: number; answers: number } | null = { since: 0, answers: 0 }

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
    this.patience = this.patience === 0 ? time : this.patience + (time - this.patience) / 16
  }

  sent(now: number): void {
    if (this.inFlight++ === 0 && this.busy !== null) this.busy = { since: now, answers: 0 }
    if (this.fixed) return
    if (this.full) this.sample.reached = true
    if (this.sample.open && now >= this.settled) this.sample.add(now, this.inFlight)
  }

  /** A request ended in a way that says nothing about the load of the supplier. */
  dropped(): void {
    this.inFlight--
  }

  /** A request ended: with its answer, or (`answered` false) at its deadline. */
  finished(sentAt: number, now: number, answered: boolean): void {
    const { sample, full, patience } = this
    const took = now - sentAt
    this.inFlight--
    // It waited here for long, and the supplier had little of its time.
    if (!answered && took < patience * comfortable) return
    this.latency = this.latency === 0 ? took : this.latency + (took - this.latency) / 8
    if (this.fixed) return
    if (!this.sampled && this.known < firstRequests) this.own += (took - this.own) / ++this.known
    this.count(now, answered)
    if (this.growing) this.grow(took, now, full && answered)
    sample.end(sentAt, took, answered, this.limit)
    if (sample.isWhole(now, patience)) {
      this.judge(sample.crowd / sample.size, sample.sum / sample.ended, now)
      sample.begin()
    }
  }

  private count(now: number, answered: boolean): void {
    if (answered) {
      this.answers++
      if (this.busy !== null) this.busy.answers++
    }
    const elapsed = now - this.countedSince
    if (elapsed < this.latency) return
    this.rate = this.answers / elapsed
    this.answers = 0
    this.countedSince = now
  }

  private grow(took: number, now: number, reached: boolean): void {
    const { own, tooLong } = this
    const certain = this.sampled ? tooLong : Math.max(tooLong, own * 2)
    if (took > tooLong && this.latency > certain) {
      this.growing = false
      this.fallTo(this.rate * this.wanted, now)
      this.sample.begin()
    } else if (this.busy !== null && took > own * tooMuchOfOwn) this.firstQueue(this.busy, now)
    else if (reached && took <= this.wanted && took <= own * tooMuchOfOwn)
      this.limit = Math.min(this.highest, this.limit + 1)
  }

  /**
   * The first answer that took longer than those before it, within a burst. Waiting for proof would fill the queue of a
   * small supplier with requests that are late: 5 % of the goodput of ten seconds.
   */
  private firstQueue({ since, answers }: { since: number; answers: number }, now: number): void {
    if (!this.sample.reached || now - since > this.patience) return
    this.busy = null
    this.limit = Math.max(1, Math.min(this.limit, (answers / (now - since)) * this.wanted))
  }

  private fallTo(limit: number, now: number): void {
    this.limit = Math.min(this.limit, Math.max(1, limit))
    this.settled = now + this.patience * comfortable
  }

  /** Milliseconds that a request is to take while the limit is reached. */
  private get wanted(): number {
    return Math.max(this.patience * comfortable, this.own * wantedOfOwn)
  }

  private get tooLong(): number {
    return Math.max(this.patience * comfortable, this.own * tooMuchOfOwn)
  }

  /** The average number of requests in flight, and their average latency in milliseconds. */
  private judge(crowd: number, mean: number, now: number): void {
    const { patience } = this
    const { reached } = this.sample
    if (mean < patience) this.learn(crowd, mean, reached)
    const { wanted, tooLong, own } = this
    // Below the limit only requests that are late count.
    if (mean > (reached ? tooLong : Math.max(tooLong, patience * 0.9))) {
      this.growing = false
      const least = now - this.harmlessAt < memory ? this.harmless / 2 : 1
      this.fallTo(Math.max(least, crowd * Math.max(0.5, wanted / mean)), now)
      return
    }
    this.harmless = crowd
    this.harmlessAt = now
    const next = (crowd * wanted) / mean
    if (!reached || mean * 2 <= wanted) this.growing = true
    else if (this.growing && mean > own * tooMuchOfOwn) {
      this.growing = false
      this.limit = Math.min(this.limit, next)
      return
    } else if (this.growing) return
    if (reached && mean < wanted)
      this.limit = Math.min(this.highest, Math.max(this.limit + 0.25, Math.min(crowd * 2, next)))
  }

  /** What the supplier takes by itself shows below the limit, and where the latency does not follow the number. */
  private learn(crowd: number, mean: number, reached: boolean): void {
    const slope = this.slope.add(crowd, mean)
    const matters = mean * wantedOfOwn > this.patience * comfortable
    if (reached && mean >= this.own && !(matters && slope < 0.5)) return
    this.own += (mean - this.own) / (this.sampled || reached ? 4 : 1)
    this.sampled ||= !reached || mean >= this.own
    if (reached && slope < 0.25) this.growing = true
  }
}
