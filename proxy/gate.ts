/**
 * The way to one supplier (CONTRACT 3, overload): a request is sent at once while the limit permits, waits in a short
 * queue where it can still be answered in time, and is refused at once otherwise. Time is milliseconds of any
 * monotonic clock.
 */
import { Limiter } from './limiter.ts'

/** A request on its way to the supplier. */
export interface Candidate {
  /** Its deadline. */
  readonly due: number
  /** It waited and is sent now. */
  send(): void
  /** It waited in vain. */
  refuse(): void
}

/** Requests that wait, at most. */
const longest = 1024
/** The same before the first answer, for each place of the limit. */
const unproven = 8
/** Share of its time that a request waits, at most, once the supplier is known to do no more. */
const longestWait = 0.25

export class Gate {
  readonly limiter = new Limiter()
  private readonly queue = new Set<Candidate>()

  get limit(): number {
    return Math.ceil(this.limiter.limit)
  }

  get queued(): number {
    return this.queue.size
  }

  configure(limit: number | null, highest: number, now: number): void {
    this.limiter.configure(limit, highest)
    this.next(now)
  }

  /** Whether a request that is due then is refused now; one that is not may still be, when its body has come. */
  refuses(due: number, now: number): boolean {
    if (!this.limiter.full || this.hasTime(this.queue.size, due - now)) return false
    this.limiter.refused()
    return true
  }

  enter(candidate: Candidate, now: number): 'sent' | 'queued' | 'refused' {
    const { limiter, queue } = this
    const left = candidate.due - now
    limiter.arrived(left)
    if (!limiter.full) {
      limiter.sent(now)
      candidate.send()
      return 'sent'
    }
    if (!this.hasTime(queue.size, left)) {
      limiter.refused()
      return 'refused'
    }
    queue.add(candidate)
    return 'queued'
  }

  /** Whether a request behind `ahead` others in the queue is answered within `left` milliseconds. */
  private hasTime(ahead: number, left: number): boolean {
    const { latency, limit, rate, saturated, patience } = this.limiter
    if (ahead >= longest) return false
    if (latency === 0) return ahead < limit * unproven
    // The limit may grow: three times of what it lets through now is what is hoped for.
    if (!saturated) return ((ahead + 1) * latency) / limit / 3 + latency <= left
    const wait = (ahead + 1) / rate
    return wait <= patience * longestWait && wait + this.takes <= left * 0.85
  }

  /** Milliseconds that a request which is sent now is expected to take. */
  private get takes(): number {
    const { latency, inFlight, rate, saturated } = this.limiter
    return saturated ? Math.max(latency * 0.8, inFlight / rate) : latency
  }

  /** A queued request waits no longer: its caller went away, or its deadline came. */
  leave(candidate: Candidate): void {
    this.queue.delete(candidate)
  }

  /** A sent request ended: with its answer, or (`answered` false) at its deadline. */
  finished(sentAt: number, now: number, answered: boolean): void {
    const { limiter } = this
    const before = limiter.saturated
    limiter.finished(sentAt, now, answered)
    if (limiter.saturated && !before) this.trim(now)
    this.next(now)
  }

  /** A sent request ended in a way that says nothing about the load of the supplier. */
  dropped(now: number): void {
    this.limiter.dropped()
    this.next(now)
  }

  /** The supplier does less than was hoped for when the queue grew. */
  private trim(now: number): void {
    let ahead = 0
    for (const candidate of this.queue)
      if (this.hasTime(ahead, candidate.due - now)) ahead++
      else {
        this.queue.delete(candidate)
        candidate.refuse()
      }
  }

  private next(now: number): void {
    const { limiter, queue } = this
    if (queue.size > 0)
      for (const candidate of queue) {
        if (limiter.full) return
        queue.delete(candidate)
        if (candidate.due - now < Math.max(this.takes * 1.05, limiter.last)) {
          limiter.refused()
          candidate.refuse()
        } else {
          limiter.sent(now)
          candidate.send()
        }
      }
    if (!limiter.full) limiter.unclaimed()
  }
}
