/** The sums of a bid's weights: where its blocks lie, what they come to, and a step of them. */

import {
  blockFrom,
  blockHalf,
  blockMask,
  blockWidth,
  placesOf,
  priorOf,
  sumCount,
  sumOf,
} from './layout.ts'
import { keyCount, means, savingMeans } from './priors.ts'
import type { Step, Weights } from './weights.ts'

const priorMeans = Float64Array.of(...means, 0, ...savingMeans)

export class WeightSums {
  readonly sums = new Float64Array(sumCount)
  private readonly weights: Weights
  /** Where the loaded bid's block of a key begins; -1: it has no such key. And the keys that it has. */
  private readonly slots = new Int32Array(keyCount)
  private readonly present = new Int32Array(keyCount)
  private count = 0

  constructor(weights: Weights) {
    this.weights = weights
  }

  load(keys: Uint32Array): void {
    const { slots, present } = this
    let count = 0
    for (let key = 0; key < keyCount; key++) {
      const hash = keys[key]!
      if (hash === 0) {
        slots[key] = -1
        continue
      }
      slots[key] = (hash >>> 13) & blockMask[key]!
      present[count++] = key
    }
    this.count = count
  }

  /** Adds them up. */
  add(): void {
    const { sums, slots, present, count } = this
    const of = this.weights.means
    sums.set(priorMeans)
    for (let n = 0; n < count; n++) {
      const key = present[n]!
      const slot = slots[key]!
      const from = blockFrom[key]!
      const width = blockWidth[key]!
      // Most blocks are of two weights.
      if (width === 2) {
        sums[sumOf[from]!]! += of[slot]!
        sums[sumOf[from + 1]!]! += of[slot + 1]!
        continue
      }
      for (let at = 0; at < width; at++) sums[sumOf[from + at]!]! += of[slot + at]!
    }
  }

  /** A step of the weights of one sum; their variance times g^2. */
  gather(sum: number, g: number, step: Step): number {
    const { slots } = this
    const places = placesOf[sum]!
    let spread = 0
    step.clear()
    for (let n = 0; n < places.length; n += 2) {
      const key = places[n]!
      const slot = slots[key]!
      if (slot < 0) continue
      spread += step.add(slot + places[n + 1]!, priorOf[blockFrom[key]! + places[n + 1]!]!, g)
    }
    return spread
  }

  /** Adds all parameters to a step; the variance of what the curve says. */
  gatherAll(gradient: Float64Array, step: Step): number {
    const { slots, present, count } = this
    let spread = 0
    step.clear()
    for (let n = 0; n < count; n++) {
      const key = present[n]!
      const half = blockHalf[key]!
      const from = blockFrom[key]!
      const slot = slots[key]!
      for (let at = 0; at < half; at++)
        spread += step.add(slot + at, priorOf[from + at]!, gradient[sumOf[from + at]!]!)
    }
    return spread
  }
}
