/**
 * Multipliers of single seats and publishers: a floor over all bids of a supplier would hide those that lose more than others.
 * If one has 20,000 settled bids and keeps less than the floor minus 4 points, its multipliers rise until it keeps more. The
 * table is bounded: an entry with few bids is replaced.
 */
const slots = 4096
const settledBefore = 20_000
const horizon = 40_000
/** The boost rises if kept wins are below the floor by more than the first, and falls if by less than the second. */
const [tooLow, nearEnough] = [0.04, 0.02]
/** Bids between two changes of a boost. */
const every = 500
const [raise, ease, mostBoost] = [1.15, 0.97, 8]

export interface Segment {
  key: number
  bids: number
  wins: number
  /** Expected wins at the bids' own prices. */
  dueIn: number
  /** The factor of theta - 1 and lambda. */
  boost: number
  /** Bids until the boost may change again. */
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

  /** Counts a bid. Returns the segment if its boost is due to be adjusted. */
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
   * `ratio`: wins over the wins expected at the bids' own prices, of all bids of the supplier. `kept`: the share of wins that
   * those keep. Notices that are lost, late or reported to another node cancel between segment and supplier.
   */
  adjust(segment: Segment, ratio: number, kept: number, floor: number): void {
    if (!(ratio > 0.1)) return
    const own = (kept * segment.wins) / segment.dueIn / ratio
    if (own < floor - tooLow) segment.boost = Math.min(mostBoost, segment.boost * raise)
    else if (own > floor - nearEnough) segment.boost = Math.max(1, segment.boost * ease)
  }

  /** Second-chance replacement: halves the counts of the entries that it passes, and replaces the first small one. */
  private admit(key: number): Segment {
    const segment: Segment = { key, bids: 0, wins: 0, dueIn: 0, boost: 1, next: 0 }
    this.known.set(key, segment)
    if (this.ring.length < slots) {
      this.ring.push(segment)
      return segment
    }
    for (let passes = 0; passes < 32; passes++) {
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
