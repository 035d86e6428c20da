/**
 * How many requests may be at a supplier at once. The adaptive limit is the throughput that the supplier shows times
 * the time that a request may spend there (Little's law): more requests in flight than that add waiting, not answers.
 *
 * Everything is measured by rounds. A round ends with the first answer to a request that was sent in it, so it lasts
 * at least as long as the supplier takes, and a change of the limit shows in the round after it. Time is milliseconds
 * of any monotonic clock. The figures below were chosen with `bench/overload/simulation.ts`.
 */

/** The limit before anything is known of the supplier. */
export const firstLimit = 12
/** Requests that end in a round before it may end, at most. */
const enough = 32
/** Milliseconds after which a limit that is not reached any more is back at the first one. */
const memory = 15_000
/** Share of its time that a request may spend at a supplier, where the supplier itself takes less. */
const comfortable = 1 / 3
/** The same where the supplier itself takes long: at most, after many late answers, and at the very most. */
const most = 0.6
const least = 0.25
const utmost = 0.95
/** Late requests of a round, above the usual share, that mean too many in flight. */
const tolerated = 0.2
/** Rounds without a standing queue after which a supplier is no longer saturated. */
const calmRounds = 3

export class Limiter {
  /** Fractions of it add up as it falls. */
  limit = firstLimit
  inFlight = 0
  /** Milliseconds that a request takes, on average; 0: not known yet. */
  latency = 0
  /** Milliseconds that the last request took. */
  last = 0
  /** Requests that end per millisecond. */
  rate = 0
  /** The supplier does no more, however many requests are in flight. */
  saturated = false
  /** Milliseconds from the arrival of a request to its deadline, on average. */
  patience = 0
  /** Milliseconds that a request takes while none waits at the supplier. */
  private base = 0
  /** Share of its time that a request may spend at the supplier; falls where requests are late. */
  private share = most
  /** Share of requests that are late however few are in flight. */
  private usual = 0
  private calm = 0
  /** Nothing has shown yet where the supplier's capacity ends. */
  private starting = true
  private closed = 0
  private fixed = false
  private highest = Number.POSITIVE_INFINITY
  private round = new Round(0, 0)
  /** The limit and the latency that the last cut began with, and the rounds since. */
  private cut = { limit: 0, latency: 0, rounds: 0 }

  /** `limit`: so many, always; null: adaptive. `highest` bounds both. */
  configure(limit: number | null, highest: number): void {
    this.fixed = limit !== null
    this.highest = highest
    this.limit = Math.min(limit ?? this.limit, highest)
  }

  get full(): boolean {
    return this.inFlight >= this.limit
  }

  /** A request arrived that has so many milliseconds in all. */
  arrived(time: number): void {
    this.patience = this.patience === 0 ? time : this.patience + (time - this.patience) / 16
  }

  sent(now: number): void {
    // A pause between requests is no part of a round.
    if (this.inFlight === 0) this.round.begin(now, 0)
    this.inFlight++
    const { round } = this
    if (this.inFlight > round.peak) round.peak = this.inFlight
    if (this.inFlight >= this.limit) round.reached = true
  }

  /** A request ended in a way that says nothing about the load of the supplier. */
  dropped(): void {
    this.inFlight--
  }

  /** No request waits for the place that has become free. */
  unclaimed(): void {
    this.round.spare = true
  }

  /** A request is refused: the limit is too low, or the supplier does no more. */
  refused(): void {
    this.round.refused = true
  }

  /** A request ended: with its answer, or (`answered` false) at its deadline. */
  finished(sentAt: number, now: number, answered: boolean): void {
    this.inFlight--
    const took = now - sentAt
    this.last = took
    this.latency = this.latency === 0 ? took : this.latency + (took - this.latency) / 8
    const { round } = this
    round.ended++
    round.sum += took
    if (took < round.least) round.least = took
    if (answered) round.answered++
    // One that waited here for long had no fair share of its time at the supplier.
    else if (took > this.patience * 0.8) round.late++
    if (sentAt >= round.began && round.ended >= Math.min(round.peak, enough)) this.close(now)
  }

  private close(now: number): void {
    const { round } = this
    const elapsed = Math.max(now - round.began, 0.01)
    const seen = round.ended / elapsed
    const mean = round.sum / round.ended
    const late = round.late / round.ended
    const standing = (round.reached && !round.spare) || (this.starting && round.refused)
    const crowded = this.isCrowded(mean, late)
    if (round.answered > 0) this.learn(mean, late, crowded, standing)
    this.measure(seen, crowded, standing)
    if (!this.fixed) this.adapt(mean, now - this.closed, crowded, standing)
    this.closed = now
    round.begin(now, this.inFlight)
  }

  /** Requests are late, or nearly so, and more of them than the supplier itself would make so. */
  private isCrowded(mean: number, late: number): boolean {
    const tooLate = late > this.usual + tolerated
    if (tooLate) this.share = Math.max(least, this.share * 0.85)
    else if (this.share < most) this.share += 0.01
    return (
      tooLate ||
      this.round.answered === 0 ||
      mean > Math.max(this.target * 1.3, this.patience * 0.6)
    )
  }

  /** Milliseconds that a request may spend at the supplier, on average. */
  private get target(): number {
    const { patience, base, share } = this
    const wanted = Math.min(Math.max(patience * comfortable, base * 1.5), patience * share)
    return Math.min(Math.max(wanted, base * 1.1), patience * utmost)
  }

  /** What the supplier takes by itself, learned while no request waits for a place. */
  private learn(mean: number, late: number, crowded: boolean, standing: boolean): void {
    const { round, cut, limit } = this
    const open = !standing && !crowded
    if (this.base === 0) this.base = open ? mean : this.firstBase(mean)
    else if (mean < this.base) this.base += (mean - this.base) / 4
    else if (open) this.base += (mean - this.base) / (round.reached ? 32 : 8)
    if (open) this.usual += (late - this.usual) / 8
    if (open || limit > cut.limit || mean < cut.latency * 0.9) {
      cut.limit = limit
      cut.latency = mean
      cut.rounds = 0
    } else if (limit <= cut.limit * 0.7 && ++cut.rounds > 3) {
      // Fewer in flight, and it takes as long: that is the supplier itself, not a queue.
      this.base = mean
      this.usual = late
      this.share = Math.max(this.share, Math.min(utmost, (1.2 * mean) / this.patience))
      cut.limit = 0
    }
  }

  /** The first round was full from the start: part of the latency is perhaps that of a queue. */
  private firstBase(mean: number): number {
    const { least } = this.round
    return Math.min((least + mean) / 2, Math.max(least * 1.2, this.patience / 4))
  }

  private measure(seen: number, crowded: boolean, standing: boolean): void {
    if (crowded || standing) this.calm = 0
    if (crowded || (standing && seen < this.rate * 1.25)) this.starting = false
    if (crowded) {
      this.rate = this.saturated ? (this.rate + seen) / 2 : seen
      this.saturated = true
    } else if (standing) {
      const grows = seen > this.rate * 1.5
      this.rate = grows ? seen : this.rate + (seen - this.rate) / 4
      this.saturated = !grows
    } else {
      if (!this.saturated) this.rate = seen
      this.saturated = this.saturated && ++this.calm < calmRounds
    }
  }

  private adapt(mean: number, since: number, crowded: boolean, standing: boolean): void {
    const { limit, round } = this
    let next = this.rate * this.target
    if (crowded) next = Math.floor(next)
    else if (standing) {
      const growth = mean < this.base * 1.2 ? (this.starting ? 2 : 1.25) : 1
      next = Math.max(next, limit * growth)
    } else {
      const kept = limit > firstLimit ? limit * Math.max(0, 1 - since / memory) : limit
      next = round.reached ? Math.max(next, kept) : kept
      if (next <= firstLimit) this.starting = true
    }
    this.limit = Math.min(this.highest, Math.max(1, next))
  }
}

class Round {
  began: number
  /** Most requests in flight at once. */
  peak: number
  ended = 0
  answered = 0
  /** Given up at their deadline. */
  late = 0
  /** Milliseconds: of all that ended, and of the shortest. */
  sum = 0
  least = Number.POSITIVE_INFINITY
  /** The limit was reached; a place that became free was left free. */
  reached = false
  spare = false
  refused = false

  constructor(now: number, inFlight: number) {
    this.began = now
    this.peak = inFlight
  }

  begin(now: number, inFlight: number): void {
    this.began = now
    this.peak = inFlight
    this.ended = 0
    this.answered = 0
    this.late = 0
    this.sum = 0
    this.least = Number.POSITIVE_INFINITY
    this.reached = false
    this.spare = false
    this.refused = false
  }
}
