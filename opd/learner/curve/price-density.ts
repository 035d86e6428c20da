/**
 * The distribution of the lowest winning price by placement, cumulative over fine ticks, and the weight of the parametric form
 * beside it. A placement without a distribution has the form alone.
 */

/** Ticks of 1.26 % of a distribution: prices within a factor of 25. */
export const binCount = 256
/** Distributions of placements that are kept. */
export const placementsMost = 2048

/** One entry for each placement; `cumulative` has `binCount` values for each. */
export interface Densities {
  keys: Uint32Array
  /** The tick of the first bin. */
  firsts: Int32Array
  formShares: Float32Array
  /** Probability that the lowest winning price is in a bin or below it, times 1 - formShare. */
  cumulative: Float32Array
}

export class PriceDensities {
  /** The weight of the parametric form at the loaded placement. */
  formShare = 1
  private places = new Map<number, number>()
  private firsts: Int32Array = new Int32Array(0)
  private formShares: Float32Array = new Float32Array(0)
  private cumulative: Float32Array = new Float32Array(0)
  private keyIndex = -1
  private first = 0

  /** @param densities of the last fit, which replace those before; the arrays are kept, and not copied */
  set({ keys, firsts, formShares, cumulative }: Densities): void {
    this.firsts = firsts
    this.formShares = formShares
    this.cumulative = cumulative
    this.places = new Map(Array.from(keys, (key, index) => [key, index]))
    this.keyIndex = -1
    this.formShare = 1
  }

  /** Loads the distribution of a placement. */
  loadPlacement(placement: number): void {
    const place = this.places.get(placement)
    if (place === undefined) {
      this.keyIndex = -1
      this.formShare = 1
      return
    }
    this.keyIndex = place * binCount
    this.first = this.firsts[place]!
    this.formShare = this.formShares[place]!
  }

  /** The part of the win probability at a tick that the distribution adds. */
  below(tick: number): number {
    if (this.keyIndex < 0) return 0
    const bin = tick - this.first
    if (bin < 0) return 0
    return this.cumulative[this.keyIndex + (bin < binCount ? bin : binCount - 1)]!
  }
}
