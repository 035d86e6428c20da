/** The table of weights, with a mean and a variance each, and the Kalman step that changes those of a bid. */

/** Means and variances take 4 MiB. */
export const slotCount = 2 ** 19
/** Bound of the absolute value of a mean. */
const bound = 12
/** Lower bound of a variance, as a share of its prior. */
const leastShare = 1e-4

export class Weights {
  /** Means, then variances. */
  readonly both = new Float32Array(2 * slotCount)
  readonly means = this.both.subarray(0, slotCount)
  /** 0: the weight was not trained, so its variance is the prior's. */
  readonly variances = this.both.subarray(slotCount)
}

/** Weights of one step at most; a bid has fewer. */
const maxWeights = 256
/** A variance grows by this share of its prior in each step, so that old observations lose weight. */
const forgetting = 5e-6

/** One Kalman step: weights are added with their derivatives, then all are changed. */
export class Step {
  private readonly weights: Weights
  private readonly slots = new Int32Array(maxWeights)
  private readonly priors = new Float64Array(maxWeights)
  private readonly variances = new Float64Array(maxWeights)
  /** Variance times derivative. */
  private readonly gains = new Float64Array(maxWeights)
  private count = 0

  constructor(weights: Weights) {
    this.weights = weights
  }

  clear(): void {
    this.count = 0
  }

  /** Adds a weight with the derivative g. Returns its part of the variance of the observation: v g^2. */
  addDerivative(slot: number, prior: number, g: number): number {
    const offset = this.count
    const v = this.weights.variances[slot]! || prior
    const gain = v * g
    this.slots[offset] = slot
    this.priors[offset] = prior
    this.variances[offset] = v
    this.gains[offset] = gain
    this.count = offset + 1
    return gain * g
  }

  /** `scaled`: the error over the whole variance. `known`: 1 over the whole variance; 0: variances do not change. */
  move(scaled: number, known: number): void {
    const { slots, priors, variances, gains, count } = this
    const { means, variances: into } = this.weights
    const grows = known === 0 ? 0 : forgetting
    for (let n = 0; n < count; n++) {
      const slot = slots[n]!
      const gain = gains[n]!
      const prior = priors[n]!
      const mean = means[slot]! + gain * scaled
      // This also ignores a mean that is not finite.
      if (!(mean > -bound && mean < bound)) continue
      const after = variances[n]! - gain * gain * known + grows * prior
      const least = prior * leastShare
      means[slot] = mean
      into[slot] = after > prior ? prior : after > least ? after : least
    }
  }
}
