/** Bids that wait for their notice, and how long notices take. */

const steps = 200
const perOctave = 7.27 // ln 2 / ln 1.1

/** Histogram of notice delays in steps of 10 %. It tells which bids at the end of a log are too young to count as lost. */
export class DelayHistogram {
  private readonly counts = new Float64Array(steps)
  private total = 0

  addDelay(milliseconds: number): void {
    const step = Math.ceil(Math.log2(Math.max(1, milliseconds)) * perOctave)
    this.counts[Math.min(steps - 1, step)]!++
    this.total++
  }

  /** Milliseconds within which this share of win notices arrived; 0 before the first. */
  quantile(share: number): number {
    let seen = 0
    for (let step = 0; step < steps; step++) {
      seen += this.counts[step]!
      if (this.total > 0 && seen >= share * this.total) return 2 ** (step / perOctave)
    }
    return 0
  }
}

/**
 * A bounded map by id. When it is full, the oldest row is dropped. A ring of ids finds the oldest row: the first key of a
 * Map is slow to find after many deletions.
 */
export class BoundedRows<T> extends Map<string, T> {
  private readonly ring: string[] = []
  private next = 0
  private readonly most: number
  dropped = 0

  constructor(most: number) {
    super()
    this.most = most
  }

  override set(id: string, row: T): this {
    const oldest = this.ring[this.next]
    if (oldest !== undefined && this.delete(oldest)) this.dropped++
    this.ring[this.next] = id
    this.next = (this.next + 1) % this.most
    return super.set(id, row)
  }
}
