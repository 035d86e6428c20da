/**
 * The distribution of the lowest winning price by placement, cumulative over fine ticks, and the weight of the parametric form
 * beside it. A placement without a distribution has the form alone.
 */
import { mix } from '../../base/hash.ts'
import { keyAt } from './priors.ts'

/** Ticks of 1.26 % of a distribution: prices within a factor of 25. */
export const binCount = 256
/** Distributions of placements that are kept. */
export const placementsMost = 2048

/** The key of the distribution that placements with few bids share: supplier, format, size, and whether there is a floor. 0: none. */
export const groupOf = (keys: Uint32Array, floored: boolean): number => {
  const size = keys[keyAt.size]!
  return size === 0 ? 0 : mix(size, floored ? 31 : 30) || 1
}

/** One entry for each placement or group; `cumulative` has `binCount` values for each. */
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
  private at = -1
  private first = 0

  set({ keys, firsts, formShares, cumulative }: Densities): void {
    this.firsts = firsts
    this.formShares = formShares
    this.cumulative = cumulative
    this.places = new Map(Array.from(keys, (key, at) => [key, at]))
    this.at = -1
    this.formShare = 1
  }

  /** Loads the distribution of a placement, or else that of its group. */
  loadGroup(placement: number, group: number): void {
    const place = this.places.get(placement) ?? this.places.get(group)
    if (place === undefined) {
      this.at = -1
      this.formShare = 1
      return
    }
    this.at = place * binCount
    this.first = this.firsts[place]!
    this.formShare = this.formShares[place]!
  }

  /** The part of the win probability at a tick that the distribution adds. */
  below(tick: number): number {
    if (this.at < 0) return 0
    const bin = tick - this.first
    if (bin < 0) return 0
    return this.cumulative[this.at + (bin < binCount ? bin : binCount - 1)]!
  }
}
