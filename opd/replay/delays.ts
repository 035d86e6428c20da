/** Histogram of notice delays in steps of 10 %. It tells which bids at the end of a log are too young to count as lost. */
const steps = 200
const perOctave = 7.27 // ln 2 / ln 1.1

export class NoticeDelays {
  private readonly counts = new Float64Array(steps)
  private total = 0

  add(milliseconds: number): void {
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
