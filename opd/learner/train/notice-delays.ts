/**
 * How long notices take: F(age), the share of wins whose notice has arrived by an age. Each exposure has a share of its own, and
 * is trained as lost at the age where F reaches it. So at any moment the same share of losses and of wins has been trained.
 *
 * Of recent bids only quick notices can have arrived. If these were simply counted, delays would look too short, and a cold start
 * would train mostly losses (3 points of margin at 2,000 bids a second). So wins of an age are compared with the bids that have
 * reached this age. Beyond the oldest bids a mixture of log-normal and Weibull distributions is used, each weighted by how well
 * it explains the known ages.
 */
import { binOf, bins, edges, first, middles, perLn, ratio, shapes } from './delay-shapes.ts'
import { SentCounts } from './sent-counts.ts'

/** A bin counts as reached if its bids have so many expected wins. */
const few = 3
/** Bins before the oldest reached one, by which the distributions are weighted: a fourfold of ages. */
const near = Math.round(Math.log(4) * perLn)
/** Standard deviation of ln (wins / wins that the model expects). */
const scaleSpread = 0.5
/** Wins by which the distributions are weighted, at most: none of them is exactly right. */
const weighed = 300
/** The mixture counts as much as so many wins in each bin. */
const trust = 20
/** The estimate covers at least so many wins, and so many times the notice timeout. */
const [leastWins, memory] = [300, 4]
/** Milliseconds between two updates of the counts, at least. */
const counted = 250

/** Numbers of the state: by bin, of the times of bids and of the wins of each bin, and single ones. */
const singles = 7
const stateLength = 6 * bins + 1 + (1 + bins) * SentCounts.width + singles

/** Returns a function that finds one part of an array after the other. */
function partsOf(all: Float64Array<ArrayBuffer>) {
  let offset = 0
  return (length: number) => {
    offset += length
    return all.subarray(offset - length, offset)
  }
}

export class NoticeDelays {
  /** All that is saved. The arrays that follow are its parts. */
  private readonly state = new Float64Array(stateLength)
  private readonly part = partsOf(this.state)
  /** Wins by age. */
  private readonly wins = this.part(bins)
  /** Expected wins of bids that reached the middle of a bin. */
  private readonly reached = this.part(bins)
  private readonly passed = this.part(bins)
  /** Wins of any age up to a bin's, of bids that have reached the bin. `arrived`: the times of the wins of each bin. */
  private readonly known = this.part(bins)
  private readonly knownBefore = this.part(bins)
  private readonly sums = this.part(bins + 1)
  private readonly sent = new SentCounts(this.part(SentCounts.width))
  private readonly arrived = Array.from(
    { length: bins },
    () => new SentCounts(this.part(SentCounts.width)),
  )
  /** Where `saved` writes the fields that follow. */
  private readonly numbers = this.part(singles)
  private readonly mixture = new Float64Array(bins)
  private readonly fits = new Float64Array(shapes.length)
  /** When counting began. */
  private began = Number.POSITIVE_INFINITY
  private now = 0
  /** Wins. */
  private total = 0
  /** Wins that were reported to this node: as many as its own bids have, if notices are distributed evenly. */
  private ownWins = 0
  /** Nothing is known since `forget`. */
  private unknown = false
  /** Running estimate of the age that 95 % of notices do not exceed. */
  private late = 30_000
  /** Time of the latest notice. */
  private seen = 0

  constructor() {
    this.renew()
  }

  /** A bid was sent. `expected`: its win probability. */
  exposed(expected: number, now: number): void {
    if (!(this.began <= now)) this.began = now
    this.sent.addCount(expected, now)
    // Often at first, then as often as the estimate can have changed.
    const pause = Math.min(Math.max(1000, this.noticeTimeout / 8), (now - this.began) / 64)
    if (now - this.now >= (pause > counted ? pause : counted) || now < this.now) this.count(now)
  }

  /** A notice of a bid of this age arrived, at this node (`here`) or at another. */
  received(age: number, now: number, here = true): void {
    if (here) this.ownWins++
    const bin = binOf(age)
    this.wins[bin]!++
    this.arrived[bin]!.addCount(1, now)
    this.total++
    this.unknown = false
    // A running 95 % quantile: 19 steps up for a later notice, one step down for any other.
    const step = Math.min(Math.max(100, this.late * 0.01), Math.max(0, now - this.seen) / 2)
    this.seen = Math.max(this.seen, now)
    this.late = Math.max(1000, this.late + (age > this.late ? step * 19 : -step))
  }

  /** Counts the bids and wins that reached each age since the last call. */
  private count(now: number): void {
    const since = now - this.now
    this.now = now
    const fades = this.total > leastWins && since > 0
    const kept = fades
      ? Math.max(leastWins / this.total, Math.exp(-since / (memory * this.noticeTimeout)))
      : 1
    this.total *= kept
    this.ownWins *= kept
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

  /** The last bin that counts as reached. */
  private get oldest(): number {
    let last = bins - 1
    while (last > 0 && this.reached[last]! < few) last--
    return last
  }

  /** Computes F: from counts up to the oldest bids, and from the mixture beyond them. */
  private renew(): void {
    const { wins, known, reached, sums, mixture } = this
    const oldest = this.oldest
    let seen = 0
    for (let n = 0; n <= oldest; n++) seen += wins[n]! / Math.max(reached[n]!, few)
    this.weigh(oldest, this.total > 0 ? (seen * this.ownWins) / this.total : 0)
    // Of the wins that are known at the age of a bin, the share that arrived in this bin. The win rate cancels.
    let below = 1
    let left = 0
    for (let n = 0; n <= oldest; n++) left += mixture[n]!
    sums[bins] = 1
    for (let n = bins - 1; n >= 0; n--) {
      if (n > oldest) below -= mixture[n]!
      else {
        const share = left > 0 ? Math.min(1, mixture[n]! / left) : 1
        left -= mixture[n]!
        below *= 1 - (wins[n]! + trust * share) / (Math.max(known[n]!, wins[n]!) + trust)
      }
      sums[n] = n === 0 ? 0 : Math.max(0, Math.min(below, sums[n + 1]!))
    }
  }

  /** Computes the mixture: the share of each bin by all distributions, each weighted by how well it explains the wins. */
  private weigh(oldest: number, seen: number): void {
    const { wins, known, fits, mixture } = this
    const from = Math.max(0, oldest - near)
    let came = 0
    for (let n = from; n <= oldest; n++) came += wins[n]!
    const share = came > weighed ? weighed / came : 1
    let best = Number.NEGATIVE_INFINITY
    for (const [index, { prior, until, late, early }] of shapes.entries()) {
      let fit = 0
      for (let n = from; n <= oldest; n++)
        fit += wins[n]! * late[n]! + Math.max(0, known[n]! - wins[n]!) * early[n]!
      const all = Math.log((seen + 0.02) / (until[oldest]! + 0.02)) / scaleSpread
      fit = prior - 0.5 * all * all + share * fit
      fits[index] = fit
      if (fit > best) best = fit
    }
    let all = 0
    mixture.fill(0)
    for (const [index, { shares }] of shapes.entries()) {
      const weight = Math.exp(fits[index]! - best)
      if (weight < 1e-4) continue
      all += weight
      for (let n = 0; n < bins; n++) mixture[n]! += weight * shares[n]!
    }
    for (let n = 0; n < bins; n++) mixture[n]! /= all
  }

  /** An age that few notices exceed, milliseconds. */
  get noticeTimeout(): number {
    return this.late * 1.5
  }

  /** The age by which a share of notices has arrived; infinite if nothing is known. */
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

  /** The share of notices that have arrived by an age. */
  share(age: number): number {
    if (!(age > 0) || this.unknown) return 0
    return arrivedBy(this.sums, age)
  }

  /** The share of notices that have arrived by the start of each bin, and at last. */
  get shares(): Float32Array {
    return Float32Array.from(this.sums)
  }

  /** The age at which an exposure is examined that is due at `age`, and `old` now. Beyond the ages that are known it is earlier. */
  nextLook(age: number, old: number): number {
    const could = this.now > this.began ? this.now - this.began : 0
    return age <= could ? age : Math.min(age, Math.max(500, 1.5 * old, could))
  }

  /** Discards the estimate: delays have changed, and are learned anew. */
  forget(): void {
    if (this.unknown) return
    this.unknown = true
    this.wins.fill(0)
    this.reached.fill(0)
    this.known.fill(0)
    this.total = this.ownWins = 0
    this.began = this.now
    this.renew()
  }

  /** The whole state. */
  saved(): Float64Array {
    const { began, now, total, ownWins, unknown, late, seen } = this
    this.numbers.set([began, now, total, ownWins, unknown ? 1 : 0, late, seen])
    return this.state.slice()
  }

  /** Leaves the estimate as it is if the state is of another version. */
  restoreDelays(from: Float64Array): void {
    if (from.length !== stateLength) return
    this.state.set(from)
    const [began, now, total, ownWins, unknown, late, seen] = this.numbers
    Object.assign(this, { began, now, total, ownWins, unknown: unknown === 1, late, seen })
  }
}

/**
 * The share of notices that have arrived by an age.
 *
 * @param sums the shares by the start of each bin, and at last
 * @param age milliseconds since the bid was sent
 */
export function arrivedBy(sums: Float64Array | Float32Array, age: number): number {
  const bin = binOf(age)
  const [from, to] = [sums[bin]!, sums[bin + 1]!]
  if (bin === 0) return (to * age) / first
  return from + (to - from) * Math.min(1, Math.log(age / edges[bin]!) * perLn)
}
