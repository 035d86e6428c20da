/**
 * The distribution of the lowest winning price by placement, over fine ticks: cumulative, and how much of the curve is the
 * parametric form's. A placement without one has the form alone.
 */

import { mix } from '../../shared/hash.ts'
import { keyAt } from './priors.ts'

/** Ticks of 1.26 % that a placement has: a factor of 25. */
export const binCount = 256
export const placementsMost = 2048

/** Placements of few bids share a distribution by supplier, format and size, and whether there is a floor; 0: none. */
export const groupOf = (keys: Uint32Array, floored: boolean): number => {
  const size = keys[keyAt.size]!
  return size === 0 ? 0 : mix(size, floored ? 31 : 30) || 1
}

/** By placement or group; `cumulative` by placement and bin. */
export interface Densities {
  keys: Uint32Array
  /** The tick of the first bin. */
  firsts: Int32Array
  formShares: Float32Array
  /** Probability that the lowest winning price lies in a bin or below, times 1 - formShare. */
  cumulative: Float32Array
}

export class PriceDensities {
  /** Of the loaded placement: the share of the parametric form. */
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

  /** The placement's, or that of its group. */
  load(placement: number, group: number): void {
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

  below(tick: number): number {
    if (this.at < 0) return 0
    const bin = tick - this.first
    if (bin < 0) return 0
    return this.cumulative[this.at + (bin < binCount ? bin : binCount - 1)]!
  }
}
