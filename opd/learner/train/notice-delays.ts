/**
 * How long notices take: F(age), the share of wins that are known by then. An exposure trains as lost at the age where F
 * passes a number of its own, so that at any moment as large a share of losses has trained as of wins.
 *
 * Of what was sent lately only the quick notices can have come: counted alone they make silence look sure too early, and a
 * cold start sees mostly losses (3 points of margin at 2,000 bids a second). So wins are counted by age against the bids that
 * have reached that age; beyond the oldest of these a mixture of log-normal and Weibull curves is used, weighted by how well each explains the rest.
 */
import { binOf, bins, edges, first, middles, perLn, ratio, shapes } from './delay-shapes.ts'
import { SentCounts } from './sent-counts.ts'

/** Expected wins that a bin's bids have for it to be reached; and bins before the oldest by which the curves beyond it are weighted. */
const few = 3
const near = Math.round(Math.log(4) * perLn)
/** How far, in ln, all wins may lie from what the model expects. */
const scaleSpread = 0.5
/** Curves are weighed by no more than so many wins: none of them is quite true. */
const weighed = 300
/** Wins that the family counts as in a bin. */
const trust = 20
/** Wins that are remembered at least; and for how many times the age that 95 % do not exceed. */
const [leastWins, memory] = [300, 4]
/** Milliseconds between looks at what has passed, at least. */
const counted = 250

export class NoticeDelays {
  private readonly wins = new Float64Array(bins)
  /** Expected wins of bids that reached the middle of a bin. */
  private readonly reached = new Float64Array(bins)
  private readonly passed = new Float64Array(bins)
  /** Wins up to a bin's age of bids that have reached it; and when wins of each bin came. */
  private readonly known = new Float64Array(bins)
  private readonly knownBefore = new Float64Array(bins)
  private readonly arrived = Array.from({ length: bins }, () => new SentCounts())
  private readonly sums = new Float64Array(bins + 1)
  private readonly family = new Float64Array(bins)
  private readonly fits = new Float64Array(shapes.length)
  private readonly sent = new SentCounts()
  /** Since when bids are counted; before the first there is nothing that could have been seen. */
  private began = Number.POSITIVE_INFINITY
  private now = 0
  private total = 0
  /** Of these, received by this node: as many as its own bids won, where notices are spread evenly. */
  private own = 0
  private unknown = false
  private late = 30_000
  private seen = 0

  constructor() {
    this.renew()
  }

  /** A bid was sent whose expected win is this. */
  exposed(expected: number, now: number): void {
    if (!(this.began <= now)) this.began = now
    this.sent.add(expected, now)
    // Often while it is new, then as often as a curve of that length can have changed.
    const pause = Math.min(Math.max(1000, this.noticeTimeout / 8), (now - this.began) / 64)
    if (now - this.now >= (pause > counted ? pause : counted) || now < this.now) this.count(now)
  }

  /** A notice came of a bid of this age. */
  came(age: number, now: number, here = true): void {
    if (here) this.own++
    const bin = binOf(age)
    this.wins[bin]!++
    this.arrived[bin]!.add(1, now)
    this.total++
    this.unknown = false
    // A running 95 % quantile: up by 19 steps for what is later, down by one for what is not.
    const step = Math.min(Math.max(100, this.late * 0.01), Math.max(0, now - this.seen) / 2)
    this.seen = Math.max(this.seen, now)
    this.late = Math.max(1000, this.late + (age > this.late ? step * 19 : -step))
  }

  /** What reached each age since the last look. */
  private count(now: number): void {
    const since = now - this.now
    this.now = now
    const fades = this.total > leastWins && since > 0
    const kept = fades
      ? Math.max(leastWins / this.total, Math.exp(-since / (memory * this.noticeTimeout)))
      : 1
    this.total *= kept
    this.own *= kept
    for (let n = 0; n < bins; n++) {
      const passed = this.sent.until(now - middles[n]!)
      this.reached[n] = this.reached[n]! * kept + Math.max(0, passed - this.passed[n]!)
      this.passed[n] = passed
      this.wins[n]! *= kept
      let known = 0
      for (let b = 0; b <= n; b++)
        if (this.arrived[b]!.sum > 0)
          known += this.arrived[b]!.until(now - middles[n]! + middles[b]!)
      this.known[n] = this.known[n]! * kept + Math.max(0, known - this.knownBefore[n]!)
      this.knownBefore[n] = known
    }
    this.renew()
  }

  /** The last bin that bids enough have reached. */
  private get oldest(): number {
    let last = bins - 1
    while (last > 0 && this.reached[last]! < few) last--
    return last
  }

  /** The curve: counts up to the oldest bids, from there the family, as far as it explains the last fourfold of ages. */
  private renew(): void {
    const { wins, known, reached, sums, family } = this
    const oldest = this.oldest
    let seen = 0
    for (let n = 0; n <= oldest; n++) seen += wins[n]! / Math.max(reached[n]!, few)
    this.weigh(oldest, this.total > 0 ? (seen * this.own) / this.total : 0)
    // Of the wins known at a bin's age, the share that came in that very bin: whatever share of bids wins, it cancels.
    let below = 1
    let left = 0
    for (let n = 0; n <= oldest; n++) left += family[n]!
    sums[bins] = 1
    for (let n = bins - 1; n >= 0; n--) {
      if (n > oldest) below -= family[n]!
      else {
        const share = left > 0 ? Math.min(1, family[n]! / left) : 1
        left -= family[n]!
        below *= 1 - (wins[n]! + trust * share) / (Math.max(known[n]!, wins[n]!) + trust)
      }
      sums[n] = n === 0 ? 0 : Math.max(0, Math.min(below, sums[n + 1]!))
    }
  }

  /** Shares of bins by the family: of each curve, and of what it leaves beyond the oldest, weighed by what it explains. */
  private weigh(oldest: number, seen: number): void {
    const { wins, known, fits, family } = this
    const from = Math.max(0, oldest - near)
    let came = 0
    for (let n = from; n <= oldest; n++) came += wins[n]!
    const share = came > weighed ? weighed / came : 1
    let best = Number.NEGATIVE_INFINITY
    for (const [at, { prior, until, late, early }] of shapes.entries()) {
      let fit = 0
      for (let n = from; n <= oldest; n++)
        fit += wins[n]! * late[n]! + Math.max(0, known[n]! - wins[n]!) * early[n]!
      const all = Math.log((seen + 0.02) / (until[oldest]! + 0.02)) / scaleSpread
      fit = prior - 0.5 * all * all + share * fit
      fits[at] = fit
      if (fit > best) best = fit
    }
    let all = 0
    family.fill(0)
    for (const [at, { shares }] of shapes.entries()) {
      const weight = Math.exp(fits[at]! - best)
      if (weight < 1e-4) continue
      all += weight
      for (let n = 0; n < bins; n++) family[n]! += weight * shares[n]!
    }
    for (let n = 0; n < bins; n++) family[n]! /= all
  }

  /** An age that few notices exceed. */
  get noticeTimeout(): number {
    return this.late * 1.5
  }

  /** The age by which a share of notices has come; infinite while nothing is known. */
  age(share: number): number {
    if (this.unknown) return Number.POSITIVE_INFINITY
    const { sums } = this
    let [low, high] = [0, bins]
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (sums[middle]! <= share) low = middle
      else high = middle
    }
    const into = (share - sums[low]!) / (sums[high]! - sums[low]!)
    if (low === 0) return into * first
    return edges[low]! * ratio ** into
  }

  /** The share of notices that has come by an age. */
  share(age: number): number {
    if (!(age > 0) || this.unknown) return 0
    const bin = binOf(age)
    const [from, to] = [this.sums[bin]!, this.sums[bin + 1]!]
    if (bin === 0) return (to * age) / first
    return from + (to - from) * Math.min(1, Math.log(age / edges[bin]!) / Math.log(ratio))
  }

  /** When to look at an exposure that is due at `age` and `old` now: what is not known yet is looked at sooner. */
  look(age: number, old: number): number {
    const could = this.now > this.began ? this.now - this.began : 0
    return age <= could ? age : Math.min(age, Math.max(500, 1.5 * old, could))
  }

  /** What was remembered no longer holds: only what comes from now on counts. */
  forget(): void {
    if (this.unknown) return
    this.unknown = true
    this.wins.fill(0)
    this.reached.fill(0)
    this.known.fill(0)
    this.total = this.own = 0
    this.began = this.now
    this.renew()
  }

  toJSON(): number[] {
    const began = Number.isFinite(this.began) ? this.began : 0
    return [-1, began, ...this.wins, ...this.reached, ...this.known]
  }

  restore([mark, began = 0, ...counts]: readonly number[]): void {
    if (mark !== -1 || counts.length !== 3 * bins || !counts.every((count) => count >= 0)) return
    if (began > 0) this.began = began
    this.wins.set(counts.slice(0, bins))
    this.reached.set(counts.slice(bins, 2 * bins))
    this.known.set(counts.slice(2 * bins))
    this.total = this.own = this.wins.reduce((sum, count) => sum + count, 0)
    this.renew()
  }
}
