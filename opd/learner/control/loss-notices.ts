/** Which share of the losses have notices with the lowest winning price: wins alone would mean that nothing is lost. */

/** Bids that are remembered. */
const memory = 2000
/** Share of the losses for which there is no such price, such as bids that were filtered. */
const without = 0.15
/** If a smaller share has notices, nothing is counted. */
const mostly = 0.5

export class LossNotices {
  /** Bids less wins, and losses with a notice. A notice may be of another node's bid: at a steady rate as many come as go. */
  private losses = 0
  private noticed = 0

  exposed(): void {
    const kept = 1 - 1 / memory
    this.losses = this.losses * kept + 1
    this.noticed *= kept
  }

  won(): void {
    this.losses--
  }

  lost(): void {
    this.noticed++
  }

  /** How many losses one loss with a notice counts for; 0: most losses have no notice. */
  get each(): number {
    const share = Math.min(1, this.noticed / (this.losses * (1 - without)))
    return share > mostly ? 1 / share : 0
  }

  saved(): [number, number] {
    return [this.losses, this.noticed]
  }

  restore([losses, noticed]: readonly [number, number]): void {
    this.losses = losses
    this.noticed = noticed
  }
}
