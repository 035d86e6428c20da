/**
 * Seats and publishers of their own: a pooled floor would hide those that lose more than others. One that has settled 20,000 bids and keeps less than
 * the floor minus 4 points gets a larger multiplier until it keeps more. Bounded: the least busy is replaced.
 */
const slots = 4096
const settledBefore = 20_000
const horizon = 40_000
/** So far below the floor its multiplier rises; when it is nearer than the second, the multiplier falls. */
const [tooLow, nearEnough] = [0.04, 0.02]
const every = 500
const [raise, ease, mostBoost] = [1.15, 0.97, 8]

export interface Segment {
  key: number
  bids: number
  wins: number
  /** Expected wins at the bids' own prices. */
  dueIn: number
  boost: number
  next: number
}

export class Segments {
  private readonly known = new Map<number, Segment>()
  private readonly ring: Segment[] = []
  private hand = 0

  get size(): number {
    return this.known.size
  }

  boost(key: number): number {
    return this.known.get(key)?.boost ?? 1
  }

  /** Counts a bid; null: it is not one after which to judge. */
  exposed(key: number, winIn: number): Segment | null {
    const segment = this.known.get(key) ?? this.admit(key)
    segment.bids++
    segment.dueIn += winIn
    if (segment.bids > horizon) {
      const keep = horizon / segment.bids
      segment.bids *= keep
      segment.dueIn *= keep
      segment.wins *= keep
    }
    if (segment.bids < settledBefore || --segment.next > 0) return null
    segment.next = every
    return segment
  }

  won(key: number): void {
    const segment = this.known.get(key)
    if (segment !== undefined) segment.wins++
  }

  /**
   * `ratio`: wins over expected wins at the bids' own prices, of all bids of the supplier whose wins come to this node;
   * `kept` what those keep. Notices lost, late or reported elsewhere cancel between the two.
   */
  judge(segment: Segment, ratio: number, kept: number, floor: number): void {
    if (!(ratio > 0.1)) return
    const own = (kept * segment.wins) / segment.dueIn / ratio
    if (own < floor - tooLow) segment.boost = Math.min(mostBoost, segment.boost * raise)
    else if (own > floor - nearEnough) segment.boost = Math.max(1, segment.boost * ease)
  }

  /** Second-chance replacement: halves the entries that it passes, and replaces the first one that is small. */
  private admit(key: number): Segment {
    const segment: Segment = { key, bids: 0, wins: 0, dueIn: 0, boost: 1, next: 0 }
    this.known.set(key, segment)
    if (this.ring.length < slots) {
      this.ring.push(segment)
      return segment
    }
    for (let looks = 0; looks < 32; looks++) {
      const passed = this.ring[this.hand]!
      if (passed.boost === 1 && passed.bids < 64) break
      passed.bids /= 2
      passed.dueIn /= 2
      passed.wins /= 2
      this.hand = (this.hand + 1) % slots
    }
    this.known.delete(this.ring[this.hand]!.key)
    this.ring[this.hand] = segment
    this.hand = (this.hand + 1) % slots
    return segment
  }

  saved(): Segment[] {
    return this.ring.filter(({ bids }) => bids >= 1000)
  }

  restore(segments: readonly Segment[]): void {
    for (const segment of segments) Object.assign(this.admit(segment.key), segment)
  }
}
