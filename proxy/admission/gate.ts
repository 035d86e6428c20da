/**
 * Admission to one supplier (CONTRACT 3, overload): a request is sent at once if the limit permits, waits in a short
 * queue if it can still be answered in time, and is refused at once otherwise. Time is milliseconds of any monotonic
 * clock.
 */
import { Limiter } from './limiter.ts'

/** A request that is to be sent to the supplier. */
export interface Candidate {
  /** Its deadline. */
  readonly due: number
  /**
   * Called at once, or when its turn in the queue has come.
   *
   * @param now milliseconds
   */
  send(now: number): void
  /** Called if it can no longer be answered in time. */
  refuse(): void
}

/** Before the first response: requests that wait for each place of a fixed limit, at most. */
const maxRoundsUnmeasured = 8
/** Once a queue was seen at the supplier: the share of its time that a request waits, at most. */
const maxWaitShare = 0.25
/** A request may plan on this share of its time; the rest is for latencies above the mean. */
const plannedShare = 0.9

/** The limit of the requests of one supplier, and their queue. */
export class Gate {
  readonly limiter = new Limiter()
  /** null: no request has waited yet. */
  private queue: Set<Candidate> | null = null

  get limit(): number {
    return Math.ceil(this.limiter.limit)
  }

  get queued(): number {
    return this.queue?.size ?? 0
  }

  /**
   * Sends queued requests at once if the new limit permits.
   *
   * @param limit requests in flight; null: the adaptive limit
   * @param highest bounds both
   * @param now milliseconds
   */
  configure(limit: number | null, highest: number, now: number): void {
    this.limiter.configure(limit, highest)
    this.next(now)
  }

  /**
   * Whether a request is refused now, before its body is read. It may still be refused by `enter`.
   *
   * @param due its deadline, milliseconds
   * @param now milliseconds
   */
  refuses(due: number, now: number): boolean {
    return this.limiter.full && !this.hasTime(this.queued, due - now)
  }

  /**
   * Calls `candidate.send` before it returns `sent`, and `candidate.refuse` never before it returns `refused`.
   *
   * @param candidate once it is queued, one of its methods is called, unless it leaves
   * @param now milliseconds
   */
  enter(candidate: Candidate, now: number): 'sent' | 'queued' | 'refused' {
    const { limiter } = this
    const left = candidate.due - now
    limiter.arrived(left)
    if (!limiter.full) {
      limiter.sent(now)
      candidate.send(now)
      return 'sent'
    }
    if (!this.hasTime(this.queued, left)) return 'refused'
    this.queue ??= new Set()
    this.queue.add(candidate)
    return 'queued'
  }

  /** Whether a request behind `ahead` others in the queue is answered within `left` milliseconds. */
  private hasTime(ahead: number, left: number): boolean {
    const { latency, limit, growing, timeBudget } = this.limiter
    const rounds = (ahead + 1) / limit
    if (latency === 0) return growing || rounds <= maxRoundsUnmeasured
    // The limit doubles with each round.
    if (growing) return (Math.log2(1 + rounds) + 1) * latency <= left
    const wait = rounds * latency
    return wait <= timeBudget * maxWaitShare && wait + latency <= left * plannedShare
  }

  /**
   * A queued request waits no longer: its caller has left, or its deadline has passed.
   *
   * @param candidate neither of its methods is called afterwards
   */
  leave(candidate: Candidate): void {
    this.queue?.delete(candidate)
  }

  /**
   * A sent request ended: its place is free.
   *
   * @param sentAt the time that `send` received
   * @param now when it ended, milliseconds
   * @param answered with its response; false: at its deadline
   */
  finished(sentAt: number, now: number, answered: boolean): void {
    const { limiter } = this
    const before = limiter.limit
    limiter.finished(sentAt, now, answered)
    if (limiter.limit < before) this.trim(now)
    this.next(now)
  }

  /**
   * A sent request ended in a way that says nothing about the load of the supplier: its place is free.
   *
   * @param sentAt the time that `send` received
   * @param now when it ended, milliseconds
   */
  dropped(sentAt: number, now: number): void {
    this.limiter.dropped(sentAt)
    this.next(now)
  }

  /** The limit has fallen: refuses the queued requests that can no longer be answered in time. */
  private trim(now: number): void {
    const { queue } = this
    if (queue === null) return
    let ahead = 0
    for (const candidate of queue)
      if (this.hasTime(ahead, candidate.due - now)) ahead++
      else {
        queue.delete(candidate)
        candidate.refuse()
      }
  }

  private next(now: number): void {
    const { limiter, queue } = this
    if (queue === null || queue.size === 0) return
    for (const candidate of queue) {
      if (limiter.full) return
      queue.delete(candidate)
      if (candidate.due - now < limiter.latency) candidate.refuse()
      else {
        limiter.sent(now)
        candidate.send(now)
      }
    }
  }
}
