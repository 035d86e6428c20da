/**
 * The share of losses whose notice has the lowest winning price. If only wins had it, the lowest winning price would never be
 * above the price sent.
 */

/** Bids over which the share is measured. */
const memory = 2000
/** Share of losses that have no such price in any case, such as bids that were filtered. */
const without = 0.15
/** If the share is smaller, no loss is counted. */
const mostly = 0.5

export class LossNotices {
  /** Losses, and those with such a notice. Notices of other nodes' bids come here as often as the reverse. */
  private losses = 0
  private noticed = 0

  exposed(): void {
    const kept = 1 - 1 / memory
    this.losses = this.losses * kept + 1
    this.noticed *= kept
  }

  countWin(): void {
    this.losses--
  }

  lost(): void {
    this.noticed++
  }

  /** Number of losses that one loss with a notice represents; 0: most losses have no notice. */
  get perNotice(): number {
    const share = Math.min(1, this.noticed / (this.losses * (1 - without)))
    return share > mostly ? 1 / share : 0
  }

  saved(): [number, number] {
    return [this.losses, this.noticed]
  }

  restoreCounts([losses, noticed]: readonly [number, number]): void {
    this.losses = losses
    this.noticed = noticed
  }
}
