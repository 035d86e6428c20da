/** Which share of the losses have notices that say the lowest winning price: wins alone would say that nothing is lost. */

/** Bids that are remembered. */
const memory = 2000
/** Losses that have none to say, such as bids that were filtered. */
const without = 0.15
/** Where fewer are told, nothing is counted. */
const mostly = 0.5

export class ToldLosses {
  /** Bids less wins, and losses told. A notice may be another node's: at a steady rate as many come as go. */
  private losses = 0
  private told = 0

  exposed(): void {
    const kept = 1 - 1 / memory
    this.losses = this.losses * kept + 1
    this.told *= kept
  }

  won(): void {
    this.losses--
  }

  lost(): void {
    this.told++
  }

  /** How many losses one loss with a notice counts for; 0: most losses have no notice. */
  get each(): number {
    const share = Math.min(1, this.told / (this.losses * (1 - without)))
    return share > mostly ? 1 / share : 0
  }

  saved(): [number, number] {
    return [this.losses, this.told]
  }

  restore([losses, told]: readonly [number, number]): void {
    this.losses = losses
    this.told = told
  }
}
