/**
 * How many requests may be at a supplier at once (docs/architecture/decisions/0011-load-or-lateness.md).
 *
 * The limit is set by samples: the latency and the time-outs of 16 to 32 requests that were sent one after another. It is a
 * gradient limiter as in Netflix concurrency-limits and Envoy adaptive concurrency: the limit becomes number in flight x
 * wanted latency / measured latency. The wanted latency is a share of the time that a request has, since a queue in which
 * requests are still answered in time does no harm.
 *
 * Long latencies and time-outs have two causes. Load: with fewer requests in flight they pass. Lateness of the supplier
 * itself (a far region, callers with a short `tmax`, requests that it drops): they do not. Two observations tell them apart:
 *
 * - A queue delays the requests that are answered too. While these take what they take without a queue (`own`), time-outs
 *   are lateness.
 * - A trial: the limit is halved for one sample. If each place in flight gives more answers in time than before, load was
 *   the cause, and the limit stays. If not, the limit is restored, and what was measured is the supplier's own.
 *
 * Until a queue is seen the limit grows by one for each response (slow start, RFC 5681 3.1), and stops growing when the
 * latency rises (HyStart++, RFC 9406). Time is milliseconds of any monotonic clock.
 */

/** Why the limit has its value, the one that restricts most last. `none`: nothing that a limit would help against is seen. */
export const limitCauses = ['none', 'lateness', 'probing', 'load', 'fixed'] as const
export type LimitCause = (typeof limitCauses)[number]

/**
 * The limit before anything is known of the supplier. A supplier with 4 slots of 100 ms answers 20 requests within 500 ms.
 * At 500 requests/s, 100 ms of latency and deadlines of 120 ms, about 200 are refused until the limit has grown.
 */
export const firstLimit = 20
/**
 * The wanted latency, as a share of the time that a request has. With a half, a supplier whose requests share its
 * processors loses 5 % of its capacity to time-outs, since large requests take a multiple of the mean.
 */
const wantedShare = 0.4
/** If a supplier is slower than that even without a queue: the wanted latency and the tolerable one, as multiples of its own. */
const wantedOverOwn = 1.15
const tooLongOverOwn = 1.5
/** A mean latency above this multiple of the supplier's own shows a queue. */
const queuedOverOwn = 1.25
/** Below the limit latency counts from this share of the time that a request has, and each time-out at any limit. */
const lateShare = 0.9
/** The share answered in time below which most requests are late, unless it is near the supplier's own. */
const mostLateShare = 0.35
const mostLateBelowOwn = 0.25
/** The first requests, whose mean latency is the supplier's own until there is a sample. */
const firstRequests = 8
/** Requests of a sample, fewer below a limit of 2; of a trial, and of the sample that it is compared with. */
const minRequests = 16
const maxRequests = 32
const minTrialRequests = 32
const maxTrialRequests = 128
/** With fewer requests answered in time a trial shows nothing: the supplier may still be overloaded many times. */
const minTrialShare = 0.2
/** What a trial changes by chance: the latency of the answered requests, and the share answered in time. */
const chanceLatency = 1.2
const chanceShare = 0.2
/**
 * A trial without load costs half of the goodput while it lasts. The next one waits for this multiple of its time, so that
 * trials cost less than 3 %, and for up to `maxTrust` times longer after each further one.
 */
const trustOverTrial = 20
const maxTrust = 16
/** Growth with each sample while the latency is the supplier's own, and too near the wanted one for a gradient. */
const carefulGrowth = 1.4
/** Milliseconds for which a safe number in flight is remembered. The limit does not fall below half of that number. */
const safeFor = 3000

const towards = (value: number, next: number, share: number) => value + (next - value) * share

/** The requests sent until the first of them ends, within bounds. It is whole when all have ended: short latencies do not outweigh long ones. */
class Sample {
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
    if (this.contains(sentAt) && --this.size === 0) this.begin()
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

  /** Milliseconds of requests that were not answered, for each one that was. */
  get lateness(): number {
    return this.answered === 0 ? Number.POSITIVE_INFINITY : this.lateTime / this.answered
  }

  /** The share answered in time. */
  get share(): number {
    return this.answered / this.ended
  }

  begin(): void {
    this.open = true
    this.limitReached = false
    this.size = this.answered = this.late = 0
    this.answeredTime = this.lateTime = this.sentInFlight = this.endedInFlight = 0
  }
}

/** What a trial is compared with: the sample before it, and the limit that is restored if load is not the cause. */
interface Trial {
  inFlight: number
  latency: number
  lateness: number
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
  private fixed = false
  private highest = Number.POSITIVE_INFINITY
  private readonly sample = new Sample()
  /**
   * The supplier without a queue: the mean latency of the answered requests, the time of late ones for each answer, the share
   * answered in time, and the number in flight at which that was measured. `confirmed`: by a trial, or by growth.
   */
  private readonly own = { latency: 0, lateness: 0, share: 1, inFlight: 0, confirmed: false }
  /** The first requests: how many were sent, when the last of them was, how many have ended, and how many were answered. */
  private readonly first = { sent: 0, until: 0, ended: 0, answered: 0 }
  /** Mean milliseconds of the answered requests. */
  private answeredLatency = 0
  private trial: Trial | null = null
  /** The trial is under way: the limit is low to measure. */
  private probing = false
  /** A sample was too long. Such a sample is worse than most by chance: a trial is compared with the next one. */
  private suspected = false
  /** Until then time-outs do not cause a trial, and by how much longer after the next trial without load. */
  private trustedUntil = 0
  private trust = 1
  /** The number in flight at which a trial has shown load; 0: none has. */
  private loadInFlight = 0
  /** The limit was reached in the last sample, and there was a queue at the supplier. */
  private queueSeen = false
  /** Until then the supplier still works on requests that were sent before the limit fell: they are not sampled. */
  private settledAt = 0
  /** The number in flight with which the latency was last not too long, and the time of that. */
  private safeInFlight = 0
  private safeAt = 0
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

  get cause(): LimitCause {
    if (this.fixed) return 'fixed'
    if (this.probing) return 'probing'
    if (this.loadInFlight > 0 || this.queueSeen) return 'load'
    const { latency, share } = this.own
    const isLate = share < lateShare || latency > this.timeBudget * wantedShare
    return isLate ? 'lateness' : 'none'
  }

  /** What the supplier does without a queue: mean seconds of an answer, and the share of requests that are late. */
  get unloaded(): { seconds: number; late: number } {
    return { seconds: this.own.latency / 1000, late: 1 - this.own.share }
  }

  /** A request arrived; `time`: milliseconds until its deadline. */
  arrived(time: number): void {
    this.timeBudget = this.timeBudget === 0 ? time : towards(this.timeBudget, time, 1 / 16)
  }

  sent(now: number): void {
    if (this.first.sent < firstRequests) {
      this.first.sent++
      this.first.until = now
    }
    if (this.inFlight++ === 0 && this.burst !== null) this.burst = { since: now, responses: 0 }
    if (this.fixed) return
    if (this.full) this.sample.limitReached = true
    if (now >= this.settledAt && this.sample.takes(now))
      this.sample.add(now, this.inFlight, this.trial === null ? maxRequests : maxTrialRequests)
  }

  /** A request ended in a way that says nothing about the load of the supplier. */
  dropped(sentAt: number): void {
    this.inFlight--
    this.sample.drop(sentAt)
  }

  /** A request ended: with its response, or (`answered` false) at its deadline. */
  finished(sentAt: number, now: number, answered: boolean): void {
    const { sample, full, own } = this
    const took = now - sentAt
    // Its caller, or the queue of the gate, left it less time than others have, and than the supplier takes without a queue.
    const telling = Math.min(own.latency * 1.1, this.timeBudget * lateShare)
    if (!answered && took < telling) return this.dropped(sentAt)
    const inFlight = this.inFlight--
    this.latency = this.latency === 0 ? took : towards(this.latency, took, 1 / 8)
    if (this.fixed) return
    if (sentAt <= this.first.until) this.first.ended++
    if (answered) this.countAnswer(sentAt, took)
    if (this.growing && answered) this.grow(took, now, full)
    // After a sample without answers a few show that they come again.
    const compared = this.trial === null ? this.suspected : this.trial.share > minTrialShare
    const least = Math.min(minRequests, Math.ceil(this.limit) * 8)
    sample.end(sentAt, took, answered, compared ? minTrialRequests : least, inFlight)
    if (!sample.isWhole) return
    this.adjust(now)
    sample.begin()
  }

  private countAnswer(sentAt: number, took: number): void {
    const { own, first, burst } = this
    this.answeredLatency =
      this.answeredLatency === 0 ? took : towards(this.answeredLatency, took, 1 / 8)
    if (burst !== null) burst.responses++
    if (sentAt <= first.until) own.latency += (took - own.latency) / ++first.answered
  }

  private grow(took: number, now: number, limitReached: boolean): void {
    const { own, tooLong, wanted, answeredLatency } = this
    const known = this.first.ended >= firstRequests
    if (known && took > tooLong && answeredLatency > Math.max(tooLong, own.latency * 2)) {
      this.growing = false
      this.lowerTo((this.inFlight * wanted) / answeredLatency, now)
      this.sample.begin()
    } else if (known && this.burst !== null && took > own.latency * tooLongOverOwn)
      this.firstQueue(this.burst, now)
    else if (!limitReached) return
    else if (own.confirmed || (took <= wanted && took <= own.latency * tooLongOverOwn))
      this.raiseTo(this.limit + 1)
  }

  /**
   * The first response within a burst that took longer than those before it. To wait for a sample would fill the queue of
   * a small supplier with requests that are late: 5 % of the goodput of ten seconds.
   */
  private firstQueue({ since, responses }: { since: number; responses: number }, now: number) {
    if (!this.sample.limitReached || now - since > this.timeBudget) return
    this.burst = null
    const held = (responses / (now - since)) * this.wanted
    this.limit = Math.max(1, this.limit / 4, Math.min(this.limit, held))
  }

  private raiseTo(limit: number): void {
    this.limit = Math.min(this.highest, Math.max(this.limit, limit))
  }

  private lowerTo(limit: number, now: number): void {
    this.limit = Math.min(this.limit, Math.max(1, limit))
    this.settledAt = now + this.timeBudget / 2
  }

  /** Milliseconds that a request may take even if the supplier is faster without a queue. */
  private get allowed(): number {
    return this.timeBudget * wantedShare
  }

  /** Milliseconds that a request is to take while the limit is reached. */
  private get wanted(): number {
    return Math.max(this.allowed, this.own.latency * wantedOverOwn)
  }

  private get tooLong(): number {
    return Math.max(this.allowed, this.own.latency * tooLongOverOwn)
  }

  /** Sets the limit by a whole sample. */
  private adjust(now: number): void {
    const { sample, trial, own } = this
    this.probing = false
    if (trial !== null && sample.share > minTrialShare && sample.inFlight < trial.inFlight * 0.7) {
      if (!this.isLoad(trial)) return this.endWithoutLoad(trial, now)
      this.foundLoad(now)
      // Half of an overload may still be one.
      if (sample.limitReached && sample.latency > this.allowed) return this.beginTrial(now)
    }
    const queued = sample.latency > own.latency * queuedOverOwn
    this.queueSeen = queued && sample.limitReached
    if (!queued && sample.share > 0) this.learnLateness(own.inFlight === 0 ? 1 : 1 / 4)
    if (own.inFlight === 0) own.inFlight = sample.inFlight
    if (own.latency === 0 && sample.share > 0) own.latency = sample.latency
    // With a queue, time-outs beyond the supplier's own are requests that would have taken longer.
    const excess = queued ? Math.max(0, sample.lateness - own.lateness) : 0
    const latency = sample.latency + excess
    const { limitReached } = sample
    const tooLong = limitReached
      ? this.tooLong
      : Math.max(this.tooLong, this.timeBudget * lateShare)
    if (latency > tooLong || this.mostAreLate) this.lower(latency, now)
    else this.raise(latency, queued, now)
  }

  private get mostAreLate(): boolean {
    const { share, ended } = this.sample
    if (share > 0 && ended < minRequests) return false
    return share < Math.min(mostLateShare, this.own.share - mostLateBelowOwn)
  }

  /** Whether the places in flight of a trial gave so many more answers in time that load was the cause. */
  private isLoad(before: Trial): boolean {
    const { inFlight, latency, lateness, share } = this.sample
    const isBetter = before.latency > latency * chanceLatency || before.share < share - chanceShare
    // Milliseconds in flight for each answer: the same if load is not the cause, half for half of a queue.
    const ratio = (before.latency + before.lateness) / (latency + lateness)
    return isBetter && ratio >= Math.sqrt(before.inFlight / inFlight)
  }

  private endWithoutLoad(trial: Trial, now: number): void {
    const { own, sample } = this
    this.trial = null
    this.learnLateness(1)
    own.latency = sample.latency
    own.inFlight = sample.inFlight
    own.confirmed = true
    this.refuteLoad(trial.inFlight)
    this.raiseTo(trial.limit)
    this.growing = this.loadInFlight === 0
    this.trustedUntil = now + (now - trial.since) * trustOverTrial * this.trust
    this.trust = Math.min(maxTrust, this.trust * 2)
  }

  /** The limit stays. If it falls further, the sample is what the later ones are compared with. */
  private foundLoad(now: number): void {
    const { own, sample } = this
    own.latency = Math.min(own.latency, sample.latency)
    own.inFlight = sample.inFlight
    own.confirmed = false
    this.loadInFlight = sample.inFlight
    this.trust = 1
    this.trial = this.comparison(this.limit, now)
  }

  private learnLateness(share: number): void {
    const { own, sample } = this
    own.lateness = towards(own.lateness, sample.lateness, share)
    own.share = towards(own.share, sample.share, share)
  }

  /** The latency is too long, or most requests are late. */
  private lower(latency: number, now: number): void {
    const { sample, own, wanted, mostAreLate, loadInFlight } = this
    const { inFlight } = sample
    this.growing = false
    const isOwn = sample.share > own.share / 2 && sample.latency <= this.tooLong
    if (isOwn && now < this.trustedUntil) return
    if (mostAreLate || inFlight < loadInFlight / 2 || loadInFlight === 0)
      return this.beginTrial(now)
    const least = now - this.safeAt < safeFor ? this.safeInFlight / 2 : 1
    this.lowerTo(Math.max(least, inFlight * Math.max(0.5, wanted / latency)), now)
  }

  private beginTrial(now: number): void {
    const { sample } = this
    const { inFlight, limitReached } = sample
    this.growing = false
    if (!this.suspected && sample.share > minTrialShare) {
      this.suspected = true
      return
    }
    this.probing = true
    this.trial = this.comparison(
      limitReached ? this.limit : Math.min(this.limit, inFlight * 2),
      now,
    )
    this.lowerTo(inFlight / 2, now)
  }

  private comparison(limit: number, since: number): Trial {
    const { inFlight, latency, lateness, share } = this.sample
    return { inFlight, latency, lateness, share, limit, since }
  }

  /** The latency is not too long: the limit grows if it was reached. */
  private raise(latency: number, queued: boolean, now: number): void {
    const { sample, own, wanted } = this
    const { inFlight, limitReached } = sample
    this.suspected = false
    this.trial = null
    this.safeInFlight = inFlight
    this.safeAt = now
    if (!queued) this.confirm()
    const before = own.latency
    if (sample.latency < before || !limitReached)
      own.latency = towards(before, sample.latency, 1 / 4)
    // After a time without answers the limit is low, and nothing has shown load.
    const isCalm = limitReached && !queued && this.loadInFlight === 0 && inFlight < own.inFlight
    const isOwn = own.confirmed && this.loadInFlight === 0 && latency <= wanted
    if (!limitReached || isCalm || latency * 2 <= wanted || isOwn) this.growing = true
    else if (this.growing && latency > before * tooLongOverOwn) {
      this.growing = false
      this.limit = Math.min(this.limit, (inFlight * wanted) / latency)
      return
    } else if (this.growing) return
    if (!limitReached) this.loadInFlight = 0
    else if (!queued && sample.latency * wantedOverOwn > this.allowed)
      this.raiseTo(this.limit * carefulGrowth)
    else if (latency < wanted)
      this.raiseTo(
        Math.max(this.limit + 0.25, Math.min(inFlight * 2, (inFlight * wanted) / latency)),
      )
  }

  /** With twice as many in flight the latency is the same: it is the supplier's own. */
  private confirm(): void {
    const { own, sample } = this
    const { inFlight, limitReached, share } = sample
    if (!limitReached || inFlight < own.inFlight * 2 || share <= own.share * 0.8) return
    own.confirmed = true
    own.inFlight = inFlight
    this.refuteLoad(inFlight)
  }

  /** With this number in flight the latency is the supplier's own. Load that was found with more is not refuted by that. */
  private refuteLoad(inFlight: number): void {
    if (inFlight >= this.loadInFlight * 2) this.loadInFlight = 0
  }
}
