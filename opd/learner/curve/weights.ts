/** The table of weights, a mean and a variance each, and the Kalman step that moves those of a bid. */

/** Means and variances are 4 MiB. */
export const slotCount = 2 ** 19
/** A mean never leaves this, whatever it is trained with; a variance not (1e-4, 1] of its prior. */
const bound = 12
const surest = 1e-4

export class Weights {
  /** Means, then variances. */
  readonly both = new Float32Array(2 * slotCount)
  readonly means = this.both.subarray(0, slotCount)
  /** 0: never touched, the prior's. */
  readonly variances = this.both.subarray(slotCount)
}

/** More weights than a bid has. */
const stepRoom = 256
/** A variance grows by this share of its prior a step: what was learned is slowly doubted. */
const forgetting = 5e-6

/** One Kalman step of many weights: gathered with how what was seen leans on each, then moved. */
export class Step {
  private readonly weights: Weights
  private readonly slots = new Int32Array(stepRoom)
  private readonly priors = new Float64Array(stepRoom)
  private readonly variances = new Float64Array(stepRoom)
  /** v g. */
  private readonly leans = new Float64Array(stepRoom)
  private count = 0

  constructor(weights: Weights) {
    this.weights = weights
  }

  clear(): void {
    this.count = 0
  }

  /** What the weight adds to the variance of what was seen: v g^2. */
  add(slot: number, prior: number, g: number): number {
    const at = this.count
    const v = this.weights.variances[slot]! || prior
    const lean = v * g
    this.slots[at] = slot
    this.priors[at] = prior
    this.variances[at] = v
    this.leans[at] = lean
    this.count = at + 1
    return lean * g
  }

  /** `scaled`: error over all variance; `known`: 1 over the same, 0 where a win tells nothing of how sure we are. */
  move(scaled: number, known: number): void {
    const { slots, priors, variances, leans, count } = this
    const { means, variances: into } = this.weights
    const grows = known === 0 ? 0 : forgetting
    for (let n = 0; n < count; n++) {
      const slot = slots[n]!
      const lean = leans[n]!
      const prior = priors[n]!
      const mean = means[slot]! + lean * scaled
      // A step that is no number is none.
      if (!(mean > -bound && mean < bound)) continue
      const after = variances[n]! - lean * lean * known + grows * prior
      const least = prior * surest
      means[slot] = mean
      into[slot] = after > prior ? prior : after > least ? after : least
    }
  }
}
