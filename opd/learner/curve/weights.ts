/** The table of weights: a mean and a variance each. */

/** Means and variances are 4 MiB. */
export const slotCount = 2 ** 19
/** A mean never leaves this, whatever it is trained with; a variance not (1e-4, 1] of its prior. */
export const bound = 12
export const surest = 1e-4

export class Weights {
  /** Means, then variances. */
  readonly both = new Float32Array(2 * slotCount)
  readonly means = this.both.subarray(0, slotCount)
  /** 0: never touched, the prior's. */
  readonly variances = this.both.subarray(slotCount)
}
