/** How many requests may be at a supplier at once. */

/**
 * The limit before anything is known of the supplier. A supplier with 4 slots of 100 ms answers 20 requests within 500 ms.
 * At 500 requests/s, 100 ms of latency and deadlines of 120 ms, about 200 are refused until the limit has grown.
 */
export const firstLimit = 20
/** The wanted latency, as a share of the time that a request has. */
const wantedShare = 0.4
/** If a supplier is slower than that even without a queue: the wanted latency and the tolerable one, as multiples of its own. */
const wantedOverOwn = 1.15
const tooLongOverOwn = 1.5
/** Below the limit latency counts from this share of the time that a request has. */
const lateShare = 0.9
/** The first requests, whose mean latency is the supplier's own until there is a sample. */
const firstRequests = 8
/** Milliseconds for which a safe number in flight is remembered. The limit does not fall below half of that number. */
const safeFor = 3000
const minRequests = 16
const maxRequests = 32
/** A trial. */
const trialRequests = Number(process.env.TR ?? 32)
const trialShare = Number(process.env.TS ?? 0.5)
const trialTrust = Number(process.env.TT ?? 20)
const lower = (value: number, next: number, share: number) => value + (next - value) * share

/** What is known of some requests that were sent one after another, when all of them have ended. */
class Sample {
  open = true
  size = 0
  answered = 0
  late = 0
  /** Milliseconds of the requests that were answered, and of those that were not. */
  answeredTime = 0
  lateTime = 0
  /** Requests in flight when each of its requests was sent. */
  inFlightSum = 0
  endInFlightSum = 0
  /** The limit was reached meanwhile. */
  limitReached = false
  /** When the first and the last of its requests were sent. */
  private from = 0
  private until = 0

  add(now: number, inFlight: number, most: number): void {
    if (this.size === 0) this.from = now
    this.until = now
    this.inFlightSum += inFlight
    if (++this.size >= most) this.open = false
  }

  end(sentAt: number, took: number, answered: boolean, least: number, inFlight: number): void {
    if (this.size === 0 || sentAt < this.from || (!this.open && sentAt > this.until)) return
    this.endInFlightSum += inFlight
    if (this.size >= least) this.open = false
    if (answered) {
      this.answered++
      this.answeredTime += took
    } else {
      this.late++
      this.lateTime += took
    }
  }

  get ended() {
    return this.answered + this.late
  }

  get inFlight() {
    return (this.inFlightSum / this.size + this.endInFlightSum / this.ended) / 2
  }

  /** Milliseconds of requests in flight for each answer. */
  get latency() {
    return this.answered === 0
      ? Number.POSITIVE_INFINITY
      : (this.answeredTime + this.lateTime) / this.answered
  }

  get mean() {
    return this.answered === 0 ? Number.POSITIVE_INFINITY : this.answeredTime / this.answered
  }

  /** Milliseconds of time-outs for each answer. */
  get lateness() {
    return this.answered === 0 ? Number.POSITIVE_INFINITY : this.lateTime / this.answered
  }

  get share() {
    return this.answered / this.ended
  }

  drop(sentAt: number): void {
    if (this.size === 0 || sentAt < this.from || (!this.open && sentAt > this.until)) return
    if (--this.size === 0) this.begin()
  }

  get isWhole(): boolean {
    return !this.open && this.ended > 0 && this.ended >= this.size
  }

  begin(): void {
    this.open = true
    this.size = this.answered = this.late = 0
    this.answeredTime = this.lateTime = this.inFlightSum = this.endInFlightSum = 0
    this.limitReached = false
  }
}

interface Trial {
  inFlight: number
  latency: number
  mean: number
  share: number
  limit: number
  since: number
}

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
  private ownLatency = 0
  private ownCount = 0
  private firstSent = 0
  private firstUntil = 0
  private ownShare = 1
  private ownInFlight = 15
  private ownLateness = 0
  private loadAt = 0
  private suspected = false
  private confirmed = false
  private fixed = false
  private highest = Number.POSITIVE_INFINITY
  private readonly sample = new Sample()
  private trial: Trial | null = null
  private trustedUntil = 0
  private trust = 1
  /** Until then the supplier still works on requests that were sent before the limit fell: they are not sampled. */
  private settledAt = 0
  private safeInFlight = 0
  private safeAt = 0
  private throughput = 0
  private answeredLatency = 0
  private responses = 0
  private countedSince = 0
  private burst: { since: number; responses: number } | null = { since: 0, responses: 0 }

  configure(limit: number | null, highest: number): void {
    if (this.fixed !== (limit !== null)) this.growing = limit === null
    this.fixed = limit !== null
    this.highest = highest
    this.limit = Math.min(limit ?? this.limit, highest)
  }

  get full(): boolean {
    return this.inFlight + 1 > this.limit
  }

  arrived(time: number): void {
    this.timeBudget = this.timeBudget === 0 ? time : this.timeBudget + (time - this.timeBudget) / 16
  }

  sent(now: number): void {
    if (this.firstSent < firstRequests) {
      this.firstSent++
      this.firstUntil = now
    }
    if (this.inFlight++ === 0 && this.burst !== null) this.burst = { since: now, responses: 0 }
    if (this.fixed) return
    if (this.full) this.sample.limitReached = true
    if (this.sample.open && now >= this.settledAt)
      this.sample.add(now, this.inFlight, this.trial === null ? maxRequests : 4 * trialRequests)
  }

  dropped(sentAt: number): void {
    this.inFlight--
    this.sample.drop(sentAt)
  }

  finished(sentAt: number, now: number, answered: boolean): void {
    const { sample, full } = this
    const took = now - sentAt
    // It had less time than the supplier takes without a queue.
    if (!answered && took < this.ownLatency * 1.1) return this.dropped(sentAt)
    const before = this.inFlight--
    this.latency = this.latency === 0 ? took : this.latency + (took - this.latency) / 8
    if (this.fixed) return
    if (answered) {
      this.answeredLatency = this.answeredLatency === 0 ? took : this.answeredLatency + (took - this.answeredLatency) / 8
      if (sentAt <= this.firstUntil)
        this.ownLatency += (took - this.ownLatency) / ++this.ownCount
    }
    this.updateThroughput(now, answered)
    if (this.growing && answered) this.grow(took, now, full && answered)
    sample.end(sentAt, took, answered, this.trial === null && !this.suspected ? minRequests : trialRequests, before)
    if (sample.isWhole) {
      this.adjust(now)
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
    const certain = Math.max(tooLong, ownLatency * 2)
    if (took > tooLong && this.answeredLatency > certain) {
      this.growing = false
      this.lowerTo((this.inFlight * this.wanted) / this.answeredLatency, now)
      this.sample.begin()
    } else if (this.burst !== null && took > ownLatency * tooLongOverOwn)
      this.firstQueue(this.burst, now)
    else if (limitReached && (this.confirmed || (took <= this.wanted && took <= ownLatency * tooLongOverOwn)))
      this.limit = Math.min(this.highest, this.limit + 1)
  }

  private firstQueue({ since, responses }: { since: number; responses: number }, now: number) {
    if (!this.sample.limitReached || now - since > this.timeBudget) return
    this.burst = null
    this.limit = Math.max(1, Math.min(this.limit, (responses / (now - since)) * this.wanted))
  }

  private lowerTo(limit: number, now: number): void {
    this.limit = Math.min(this.limit, Math.max(1, limit))
    this.settledAt = now + this.timeBudget * wantedShare
  }

  private get wanted(): number {
    return Math.max(this.timeBudget * wantedShare, this.ownLatency * wantedOverOwn)
  }

  private get tooLong(): number {
    return Math.max(this.timeBudget * wantedShare, this.ownLatency * tooLongOverOwn)
  }

  private adjust(now: number): void {
    const { sample, timeBudget, trial } = this
    const { limitReached, inFlight, mean, share } = sample
    if (trial !== null && share > 0.2 && inFlight < trial.inFlight * 0.7) {
      this.trial = null
      const slower = trial.mean > 1.2 * mean || trial.share < share - 0.2
      if (!slower || trial.latency / sample.latency < Math.sqrt(trial.inFlight / inFlight)) {
        this.learn(1)
        this.ownLatency = mean
        this.ownInFlight = inFlight
        this.confirmed = true
        this.loadAt = 0
        this.limit = Math.min(this.highest, Math.max(this.limit, trial.limit))
        this.growing = true
        this.trustedUntil = now + (now - trial.since) * trialTrust * this.trust
        this.trust = Math.min(16, this.trust * 2)
        return
      }
      this.ownLatency = Math.min(this.ownLatency, mean)
      this.ownInFlight = inFlight
      this.confirmed = false
      this.loadAt = inFlight
      this.trust = 1
      this.trial = { inFlight, latency: sample.latency, mean, share, limit: this.limit, since: now }
      // It may still be queueing
      if (limitReached && mean > timeBudget * wantedShare) return this.try(now)
    }
    const queued = mean > this.ownLatency * 1.25
    if (!queued && this.ownCount > 0 && share > 0) this.learn(0.25)
    const latency = mean + (queued ? Math.max(0, sample.lateness - this.ownLateness) : 0)
    const { wanted, tooLong, ownLatency } = this
    const mostLate = share < Math.min(0.35, this.ownShare - 0.25) && (sample.ended >= minRequests || share === 0)
    const trusted = now < this.trustedUntil && share > 0.5 * this.ownShare && mean <= tooLong
    const half = timeBudget * wantedShare
    // Below the limit only requests that are late count.
    if (mostLate || latency > (limitReached ? tooLong : Math.max(tooLong, timeBudget * lateShare))) {
      this.growing = false
      if (trusted) return
      if (mostLate || inFlight < this.loadAt / 2 || this.loadAt === 0) return this.try(now)
      const least = now - this.safeAt < safeFor ? this.safeInFlight / 2 : 1
      this.lowerTo(Math.max(least, inFlight * Math.max(0.5, wanted / latency)), now)
      return
    }
    if (!queued && inFlight >= 2 * this.ownInFlight && limitReached && share > 0.8 * this.ownShare) {
      this.confirmed = true
      this.loadAt = 0
      this.ownInFlight = inFlight
    }
    this.suspected = false
    this.trial = null
    this.safeInFlight = inFlight
    this.safeAt = now
    if (mean < ownLatency || !limitReached) this.ownLatency = lower(ownLatency, mean, 0.25)
    const next = (inFlight * wanted) / latency
    if (!limitReached || latency * 2 <= wanted || (this.confirmed && latency <= wanted)) this.growing = true
    else if (this.growing && latency > ownLatency * tooLongOverOwn) {
      this.growing = false
      this.limit = Math.min(this.limit, next)
      return
    } else if (this.growing) return
    if (limitReached && !queued && mean > half / 1.15)
      this.limit = Math.min(this.highest, this.limit * 1.25)
    else if (limitReached && latency < wanted)
      this.limit = Math.min(this.highest, Math.max(this.limit + 0.25, Math.min(inFlight * 2, next)))
  }

  private learn(share: number): void {
    this.ownLateness = lower(this.ownLateness, this.sample.lateness, share)
    this.ownShare = lower(this.ownShare, this.sample.share, share)
  }

  private try(now: number): void {
    // The sample that raises the suspicion is worse than most: the next one is compared.
    if (!this.suspected && this.sample.share > 0.2) {
      this.suspected = true
      return
    }
    const { inFlight, latency, mean, share, limitReached } = this.sample
    this.trial = {
      ...{ inFlight, latency, mean, share, since: now },
      limit: limitReached ? this.limit : Math.min(this.limit, inFlight * 2),
    }
    this.growing = false
    this.lowerTo(inFlight / 2, now)
  }
}
