/**
 * How many requests may be at a supplier at once (docs/architecture/decisions/0011-load-or-lateness.md).
 *
 * The limit is set by samples: the latency and the time-outs of 16 and more requests that were sent one after another. It is a
 * gradient limiter as in Netflix concurrency-limits and Envoy adaptive concurrency: the limit becomes number in flight x
 * wanted latency / measured latency. The wanted latency is a share of the time that a request has, since a queue in which
 * requests are still answered in time does no harm.
 *
 * Long latencies and time-outs have two causes. Load: with fewer requests in flight they pass. Lateness of the supplier
 * itself (a far region, callers with a short `tmax`, requests that it drops): they do not. So each sample is compared with what
 * the supplier does without a queue (`baseline`), and there are three sources for the baseline:
 *
 * - A trial: the limit is halved for one sample. If each place in flight gives more answers in time than before, load was
 *   the cause: the limit stays, and is halved again while requests are late. If not, the limit is restored. In both cases the
 *   sample with the least in flight replaces the baseline, since the former one may have been measured under load.
 * - Growth: with twice as many in flight the latency is the same.
 * - A supplier with room for a queue: it needs no more than the wanted share of the time. A queue delays the requests that are
 *   answered too. While these take what they take without a queue, time-outs are lateness.
 *
 * A supplier without room answers no request that waited, so its latency shows no queue. There a time-out beyond the share of
 * the baseline, and beyond chance, counts as latency.
 *
 * Until a queue is seen the limit grows by one for each response (slow start, RFC 5681 3.1), and stops growing when the
 * latency rises (HyStart++, RFC 9406). Time is milliseconds of any monotonic clock.
 */

/** The requests from which the limiter takes its measurements. Time is milliseconds of any monotonic clock. */

/** Time-outs beyond the expected number that are chance, in standard deviations. With one, a supplier that is late for half seems overloaded every few minutes. */
const chanceDeviations = 1.5

/**
 * The requests sent until the first of them ends, within bounds. It is whole when all have ended: short latencies do not
 * outweigh long ones.
 */
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

  addSent(now: number, inFlight: number, most: number): void {
    if (this.size === 0) this.from = now
    this.until = now
    this.sentInFlight += inFlight
    if (++this.size >= most) this.open = false
  }

  /** Those of one moment belong together: their ends cannot be distinguished. */
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
/** If a supplier is slower than that even without a queue: the wanted latency and the tolerable one, as multiples of the baseline. */
const wantedOverBaseline = 1.15
const tooLongOverBaseline = 1.5
/** A mean latency above this multiple of the baseline shows a queue. */
const queuedOverBaseline = 1.25
/** Below the limit latency counts from this share of the time that a request has, and each time-out at any limit. */
const lateShare = 0.9
/** The share answered in time below which most requests are late, unless it is near that of the baseline. */
const mostLateShare = 0.35
const mostLateBelowBaseline = 0.25
/** A supplier of which nothing is known and that answers less than this in time is tried at once: it costs little. */
const poorShare = 0.42
/** The first requests, whose mean latency is the baseline until there is a sample. */
const firstRequests = 8
/** Requests of a sample, for each place below a limit of 2, and at most. */
const minRequests = 16
const requestsPerPlace = 8
const maxRequests = 128
/** Requests of a trial and of the sample that it is compared with: as many as are in flight, within these bounds. */
const minTrialRequests = 32
const enoughTrialRequests = 256
const maxTrialRequests = 512
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
/** The limit falls to this share of the number in flight at most, unless it falls for a trial. */
const mostCut = 0.6
/** Up to this share of a number that was too many there is no queue. */
const clearShare = 0.7
/** Growth of a supplier without room, with each sample: past a number that was too many, and towards it. */
const leastGrowth = 1.05
const mostGrowth = 1.4

const towards = (value: number, next: number, share: number) => value + (next - value) * share

/** What the supplier does without a queue. */
class Baseline {
  /** Mean milliseconds of the answered requests. */
  latency = 0
  /** The share answered in time. */
  share = 1
  /** The number in flight up to which it is so; 0: there was no sample. */
  inFlight = 0
  /** A trial or growth has shown it. */
  confirmed = false

  replaceBy({ latency, share, inFlight }: Sample, confirmed: boolean): void {
    this.latency = latency
    this.share = share
    this.inFlight = inFlight
    this.confirmed = confirmed
  }

  learnLatency(sample: Sample): void {
    this.latency = towards(this.latency, sample.latency, 1 / 4)
  }

  learnShare(sample: Sample): void {
    this.share = towards(this.share, sample.share, 1 / 4)
  }

  learnInFlight(sample: Sample): void {
    this.inFlight = Math.min(this.inFlight, towards(this.inFlight, sample.inFlight, 1 / 4))
  }
}

/** What a trial is compared with: the sample before it, and the limit that is restored if load is not the cause. */
interface Trial {
  inFlight: number
  latency: number
  cost: number
  share: number
  limit: number
  since: number
}

/**
 * The requests since the last time at which none was in flight. It is a class, not a literal: V8 keeps the numbers of one in place, and
 * makes an object for each `since` of literals whose first field of that name may be no number.
 */
class Burst {
  /** When its first request was sent. */
  since = 0
  responses = 0
}

/** The first requests of all. */
class FirstRequests {
  sent = 0
  /** When the last of them was sent. */
  until = 0
  ended = 0
  answered = 0
}

export class Limiter {
  // What each request reads comes first, and lies together in memory.
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
  private readonly sample = new Sample()
  private readonly baseline = new Baseline()
  /** null: they have ended. */
  private first: FirstRequests | null = new FirstRequests()
  /** Mean milliseconds of the answered requests. */
  private answeredLatency = 0
  private trial: Trial | null = null
  /** A sample was too long. Such a sample is worse than most by chance: a trial is compared with the next one. */
  private suspected = false
  /** Until then the supplier still works on requests that were sent before the limit fell: they are not sampled. */
  private settledAt = 0
  /** null: the first queue was seen. */
  private burst: Burst | null = new Burst()
  private highest = Number.POSITIVE_INFINITY
  /** The trial is under way: the limit is low to measure. */
  private probing = false
  /** Until then lateness does not cause a trial, and by how much longer after the next trial without load. */
  private trustedUntil = 0
  private trust = 1
  /** The number in flight that was last too many for the supplier; 0: none was. */
  private overloaded = 0
  /** By how much the limit grows next past that number, if the supplier has no room for a queue. */
  private growth = leastGrowth
  /** The limit was reached in the last sample, and there was a queue at the supplier. */
  private queueSeen = false

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
    if (this.overloaded > 0 || this.queueSeen) return 'load'
    return this.baseline.share < lateShare || !this.hasRoom ? 'lateness' : 'none'
  }

  /** What the supplier does without a queue: mean seconds of an answer, and the share of requests that are late. */
  get unloaded(): { seconds: number; late: number } {
    return { seconds: this.baseline.latency / 1000, late: 1 - this.baseline.share }
  }

  /** A request arrived; `time`: milliseconds until its deadline. */
  arrived(time: number): void {
    this.timeBudget = this.timeBudget === 0 ? time : towards(this.timeBudget, time, 1 / 16)
  }

  sent(now: number): void {
    const { first, burst } = this
    if (first !== null && first.sent < firstRequests) {
      first.sent++
      first.until = now
    }
    if (this.inFlight++ === 0 && burst !== null) {
      burst.since = now
      burst.responses = 0
    }
    if (this.fixed) return
    if (this.full) this.sample.limitReached = true
    const most = this.trial === null && !this.suspected ? maxRequests : maxTrialRequests
    if (now >= this.settledAt && this.sample.takes(now))
      this.sample.addSent(now, this.inFlight, most)
  }

  /** A request ended in a way that says nothing about the load of the supplier. */
  dropped(sentAt: number): void {
    this.inFlight--
    this.sample.drop(sentAt)
  }

  /** A request ended: with its response, or (`answered` false) at its deadline. */
  finished(sentAt: number, now: number, answered: boolean): void {
    const { sample, full, baseline } = this
    const took = now - sentAt
    // Its caller, or the queue of the gate, left it less time than others have, and than the supplier takes without a queue.
    const telling = Math.min(baseline.latency * 1.1, this.timeBudget * lateShare)
    if (!answered && took < telling) return this.dropped(sentAt)
    const inFlight = this.inFlight--
    this.latency = this.latency === 0 ? took : towards(this.latency, took, 1 / 8)
    if (this.fixed) return
    this.countFirst(sentAt)
    if (answered) this.countAnswer(sentAt, took)
    if (this.growing && answered) this.grow(took, now, full)
    sample.end(sentAt, took, answered, this.leastRequests, inFlight)
    if (!sample.isWhole) return
    this.adjust(now)
    sample.begin()
  }

  /** The requests of the present sample, at least. */
  private get leastRequests(): number {
    const { trial, suspected, inFlight } = this
    const few = Math.ceil(this.limit) * requestsPerPlace
    // After a sample without answers a few show that they come again.
    const isCompared = trial === null ? suspected : trial.share > minTrialShare
    if (!isCompared) return Math.min(minRequests, few)
    return Math.min(enoughTrialRequests, Math.max(inFlight, Math.min(minTrialRequests, few)))
  }

  private countFirst(sentAt: number): void {
    const { first } = this
    if (first === null) return
    if (sentAt <= first.until) first.ended++
    else if (first.ended >= firstRequests) this.first = null
  }

  private countAnswer(sentAt: number, took: number): void {
    const { baseline, first, burst } = this
    this.answeredLatency =
      this.answeredLatency === 0 ? took : towards(this.answeredLatency, took, 1 / 8)
    if (burst !== null) burst.responses++
    if (first !== null && sentAt <= first.until)
      baseline.latency += (took - baseline.latency) / ++first.answered
  }

  private grow(took: number, now: number, limitReached: boolean): void {
    const { baseline, tooLong, wanted, answeredLatency } = this
    const isKnown = this.first === null || this.first.ended >= firstRequests
    const isSlow = took > baseline.latency * tooLongOverBaseline
    if (isKnown && took > tooLong && answeredLatency > Math.max(tooLong, baseline.latency * 2)) {
      this.growing = false
      this.lowerTo((this.inFlight * wanted) / answeredLatency, now)
      this.sample.begin()
    } else if (isKnown && isSlow && this.burst !== null) this.firstQueue(this.burst, now)
    else if (limitReached && (baseline.confirmed || (took <= wanted && !isSlow)))
      this.raiseTo(this.limit + 1)
  }

  /**
   * The first response within a burst that took longer than those before it. To wait for a sample would fill the queue of
   * a small supplier with requests that are late: 5 % of the goodput of ten seconds.
   */
  private firstQueue({ since, responses }: Burst, now: number): void {
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

  /** Requests that wait at the supplier can still be answered in time. */
  private get hasRoom(): boolean {
    return this.baseline.latency <= this.allowed
  }

  /** Milliseconds that a request is to take while the limit is reached. */
  private get wanted(): number {
    return Math.max(this.allowed, this.baseline.latency * wantedOverBaseline)
  }

  private get tooLong(): number {
    return Math.max(this.allowed, this.baseline.latency * tooLongOverBaseline)
  }

  /** Sets the limit by a whole sample. */
  private adjust(now: number): void {
    const { sample, trial, baseline } = this
    this.probing = false
    if (trial !== null && sample.share > minTrialShare && sample.inFlight < trial.inFlight * 0.7) {
      if (!this.isLoad(trial)) return this.endWithoutLoad(trial, now)
      this.foundLoad(trial, now)
      // Half of an overload may still be one.
      if (sample.limitReached && sample.share < lateShare) return this.beginTrial(0.5, now)
    }
    const isFirst = baseline.inFlight === 0
    const queued = sample.latency > baseline.latency * queuedOverBaseline
    this.queueSeen = queued && sample.limitReached
    const isPoor = sample.share < poorShare && sample.lateAfter >= sample.latency && this.isUnknown
    this.learnFrom(queued, isFirst)
    // The time-outs beyond those of the baseline are requests that would have taken longer.
    const latency = sample.latency + sample.excess(1 - baseline.share)
    const late = sample.limitReached ? 0 : this.timeBudget * lateShare
    if (isPoor && isFirst) this.beginTrial(Math.min(0.5, Math.max(0.25, sample.share)), now)
    else if (
      latency > Math.max(this.tooLong, late) ||
      this.mostAreLate ||
      (isPoor && sample.limitReached)
    )
      this.lower(latency, now)
    else this.raise(latency, queued)
  }

  /** Neither a trial nor growth has shown what a supplier without room for a queue does. */
  private get isUnknown(): boolean {
    return !this.hasRoom && !this.baseline.confirmed && this.overloaded === 0
  }

  private get mostAreLate(): boolean {
    const { share, ended } = this.sample
    if (share > 0 && ended < minRequests) return false
    return share < Math.min(mostLateShare, this.baseline.share - mostLateBelowBaseline)
  }

  /** Whether the places in flight of a trial gave so many more answers in time that load was the cause. */
  private isLoad(before: Trial): boolean {
    const { inFlight, latency, share, cost } = this.sample
    const isBetter = before.latency > latency * chanceLatency || before.share < share - chanceShare
    // The same cost if load is not the cause, half for half of a queue.
    return isBetter && before.cost / cost >= Math.sqrt(before.inFlight / inFlight)
  }

  private endWithoutLoad(trial: Trial, now: number): void {
    this.trial = null
    this.suspected = false
    this.baseline.replaceBy(this.sample, true)
    this.refuteLoad(trial.inFlight)
    this.raiseTo(trial.limit)
    this.growing = this.overloaded === 0
    this.trustedUntil = now + (now - trial.since) * trustOverTrial * this.trust
    this.trust = Math.min(maxTrust, this.trust * 2)
  }

  /** The limit stays. If it falls further, the sample is what the later ones are compared with. */
  private foundLoad(before: Trial, now: number): void {
    this.baseline.replaceBy(this.sample, false)
    this.overloaded = before.inFlight
    this.trust = 1
    this.trial = this.comparison(this.limit, now)
  }

  /** Learns what the supplier does without a queue from a sample that cannot have one. */
  private learnFrom(queued: boolean, isFirst: boolean): void {
    const { sample, baseline } = this
    if (sample.share === 0) return
    if (isFirst) {
      if (baseline.latency === 0) baseline.latency = sample.latency
      baseline.share = sample.share
      baseline.inFlight = sample.inFlight
    } else if (this.hasRoom && !queued) baseline.learnShare(sample)
  }

  /** The latency is too long, or most requests are late. */
  private lower(latency: number, now: number): void {
    const { sample, baseline, overloaded, mostAreLate } = this
    this.growing = false
    const isLateness = sample.share > baseline.share / 2 && sample.latency <= this.tooLong
    if (overloaded === 0 && isLateness && now < this.trustedUntil) return
    // Less than a quarter of what was too many is hardly too many: there may be another cause.
    if (overloaded === 0 || mostAreLate || sample.inFlight < overloaded / 4)
      return this.suspect(now)
    this.overloaded = sample.inFlight
    this.growth = leastGrowth
    this.lowerTo(sample.inFlight * Math.max(mostCut, this.wanted / latency), now)
  }

  private suspect(now: number): void {
    const { share, limitReached } = this.sample
    const isCertain =
      share === 0 || (share <= minTrialShare && limitReached && !this.baseline.confirmed)
    if (this.suspected || isCertain) this.beginTrial(0.5, now)
    else this.suspected = true
  }

  /** Lowers the limit to a share of the number in flight, for one sample. */
  private beginTrial(share: number, now: number): void {
    const { inFlight, limitReached } = this.sample
    this.growing = false
    this.probing = true
    const restored = limitReached ? this.limit : Math.min(this.limit, inFlight * 2)
    this.trial = this.comparison(restored, now)
    this.lowerTo(inFlight * share, now)
  }

  private comparison(limit: number, since: number): Trial {
    const { inFlight, latency, cost, share } = this.sample
    return { inFlight, latency, cost, share, limit, since }
  }

  /** The latency is not too long: the limit grows if it was reached. */
  private raise(latency: number, queued: boolean): void {
    const { sample, baseline, wanted, hasRoom } = this
    const { inFlight, limitReached } = sample
    this.suspected = false
    this.trial = null
    if (!queued && latency <= wanted) this.confirm()
    const before = baseline.latency
    this.learnFromLow()
    // After a time without answers the limit is low, and nothing has shown load.
    const isCalm = !queued && this.overloaded === 0 && inFlight < baseline.inFlight
    const isConfirmed = baseline.confirmed && this.overloaded === 0 && latency <= wanted
    const mostBefore = hasRoom || baseline.confirmed ? tooLongOverBaseline : queuedOverBaseline
    if (!limitReached || isCalm || latency * 2 <= wanted || isConfirmed) this.growing = true
    else if (this.growing && latency > before * mostBefore) {
      this.growing = false
      this.limit = Math.min(this.limit, (inFlight * wanted) / latency)
      return
    } else if (this.growing) return
    if (!limitReached) this.overloaded = 0
    else if (this.overloaded > 0 && latency > wanted) return
    else if (!queued && sample.latency * wantedOverBaseline > this.allowed) this.growWithoutRoom()
    else if (latency < wanted)
      this.raiseTo(
        Math.max(this.limit + 0.25, Math.min(inFlight * 2, (inFlight * wanted) / latency)),
      )
  }

  /** With fewer in flight than a number that was too many, or than the baseline was measured with, there is no queue. */
  private learnFromLow(): void {
    const { sample, baseline } = this
    const { inFlight, limitReached } = sample
    const low = Math.max(baseline.inFlight * 1.05, this.overloaded * clearShare)
    if (this.hasRoom) {
      if (!limitReached || sample.latency < baseline.latency) baseline.learnLatency(sample)
    } else if (!limitReached || inFlight <= low) {
      baseline.learnLatency(sample)
      baseline.learnShare(sample)
      baseline.learnInFlight(sample)
    }
  }

  /**
   * The number in flight that was too many is approached by a third of the way with each sample, as BIC TCP searches for its
   * window, and not so fast that the latency would reach the deadline. Past it the steps double as long as no queue is seen.
   */
  private growWithoutRoom(): void {
    const { limit, overloaded, sample } = this
    if (overloaded === 0) this.raiseTo(limit * mostGrowth)
    else if (limit < overloaded) {
      this.growth = leastGrowth
      const permitted = (this.timeBudget * lateShare) / sample.latency
      const most = limit * Math.min(mostGrowth, Math.max(1.1, permitted))
      this.raiseTo(Math.min(most, limit + Math.max(0.25, (overloaded - limit) / 3)))
    } else {
      this.raiseTo(limit * this.growth)
      this.growth = Math.min(mostGrowth, 1 + (this.growth - 1) * 2)
    }
  }

  /** With twice as many in flight the latency is the same: it is the supplier's own. */
  private confirm(): void {
    const { baseline, sample } = this
    const { inFlight, limitReached, share } = sample
    if (!limitReached || inFlight < baseline.inFlight * 2 || share <= baseline.share * 0.8) return
    baseline.confirmed = true
    baseline.inFlight = inFlight
    this.refuteLoad(inFlight)
  }

  /** With this number in flight the latency is that without a queue. Load that was found with more is not refuted by that. */
  private refuteLoad(inFlight: number): void {
    if (inFlight >= this.overloaded * 2) this.overloaded = 0
  }
}
