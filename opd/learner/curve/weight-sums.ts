/** Finds the blocks of a bid's weights, adds the weights up, and collects them for a step. */
import { blockFrom, blockHalf, blockMask, blockWidth, priorOf, sumCount, sumOf } from './layout.ts'
import { keyCount, means, savingMeans } from './priors.ts'
import type { Step, Weights } from './weights.ts'

const priorMeans = Float64Array.of(...means, 0, ...savingMeans)

export class WeightSums {
  readonly sums = new Float64Array(sumCount)
  private readonly weights: Weights
  /** By key, the slot at which the block of the loaded bid begins; -1: it has no such key. `present`: the keys that it has. */
  private readonly slots = new Int32Array(keyCount)
  private readonly present = new Int32Array(keyCount)
  private count = 0

  constructor(weights: Weights) {
    this.weights = weights
  }

  loadKeys(keys: Uint32Array): void {
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

  /** Adds up the weights, into `sums`. */
  addWeights(): void {
    const { sums, slots, present, count } = this
    const { means: weightMeans } = this.weights
    sums.set(priorMeans)
    for (let n = 0; n < count; n++) {
      const key = present[n]!
      const slot = slots[key]!
      const from = blockFrom[key]!
      const width = blockWidth[key]!
      // Most blocks have two weights.
      if (width === 2) {
        sums[sumOf[from]!]! += weightMeans[slot]!
        sums[sumOf[from + 1]!]! += weightMeans[slot + 1]!
        continue
      }
      for (let index = 0; index < width; index++)
        sums[sumOf[from + index]!]! += weightMeans[slot + index]!
    }
  }

  /** Collects the weights of one sum for a step, with the derivative g. Returns their variance times g^2. */
  gather(sum: number, g: number, step: Step): number {
    const { slots, present, count } = this
    let spread = 0
    step.clear()
    for (let n = 0; n < count; n++) {
      const key = present[n]!
      const from = blockFrom[key]!
      const end = from + blockWidth[key]!
      for (let index = from; index < end; index++)
        if (sumOf[index] === sum)
          spread += step.addDerivative(slots[key]! + index - from, priorOf[index]!, g)
    }
    return spread
  }

  /** Collects all parameters for a step. Returns the variance of the win probability. */
  gatherAll(gradient: Float64Array, step: Step): number {
    const { slots, present, count } = this
    let spread = 0
    step.clear()
    for (let n = 0; n < count; n++) {
      const key = present[n]!
      const half = blockHalf[key]!
      const from = blockFrom[key]!
      const slot = slots[key]!
      for (let index = 0; index < half; index++)
        spread += step.addDerivative(
          slot + index,
          priorOf[from + index]!,
          gradient[sumOf[from + index]!]!,
        )
    }
    return spread
  }
}
