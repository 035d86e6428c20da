/**
 * The win curve: W(p) = Q (T + (1 - T) sigmoid(A + B ln f + C ln in)), f = p / in. A plateau Q below 1 (some bids
 * lose at any price), a foot T above 0 (some win at any price), and a slope between. Each parameter is a sum of hashed
 * weights with a mean and a variance, updated by a diagonal extended Kalman step.
 */

/** Weights of all parameters share one table: 2^19 slots of two Float32 are 4 MiB. */
const slots = 2 ** 19
const mask = slots - 1
/** A mean never leaves this, whatever it is taught. */
const bound = 12
/** A variance grows by this a touch up to its prior: what was learned is slowly doubted. */
const forgetting = 1e-5

/** How many of the feature hashes take part in a parameter, its prior mean, and the prior variance of a weight. */
const parameters = [
  { name: 'A', hashes: 12, mean: 0, variance: 0.1 },
  { name: 'B', hashes: 4, mean: 4, variance: 0.5 },
  { name: 'C', hashes: 4, mean: 0.6, variance: 0.1 },
  { name: 'Q', hashes: 3, mean: 2, variance: 0.05 },
  { name: 'T', hashes: 3, mean: -3, variance: 0.05 },
] as const

export const hashCount = 12

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x))
const clamp = (x: number, low: number, high: number) => (x < low ? low : x > high ? high : x)

export class Curve {
  readonly mean: Float32Array
  readonly variance: Float32Array
  /** The parameter, from 1, whose weight a slot holds, where it was touched since the last delta; 0: not touched. */
  readonly touched = new Uint8Array(slots)
  private readonly sums = new Float64Array(parameters.length)
  private readonly gradient = new Float64Array(parameters.length)

  constructor(mean = new Float32Array(slots), variance = new Float32Array(slots)) {
    this.mean = mean
    this.variance = variance
  }

  static readonly slots = slots

  /** The prior variance of a weight of parameter `p`, from 1. */
  static prior(p: number): number {
    return parameters[p - 1]?.variance ?? parameters[0].variance
  }

  private slot(parameter: number, hash: number): number {
    return (Math.imul(hash ^ (parameter * 0x9e3779b1), 0x85ebca6b) >>> 11) & mask
  }

  private weightVariance(slot: number, parameter: number): number {
    const known = this.variance[slot]!
    return known === 0 ? parameters[parameter]!.variance : known
  }

  /** Sums the weights of a bid's features; `probability` then asks at prices. */
  load(hashes: Uint32Array): void {
    for (let p = 0; p < parameters.length; p++) {
      const { hashes: count, mean } = parameters[p]!
      let sum: number = mean
      for (let at = 0; at < count; at++) sum += this.mean[this.slot(p, hashes[at]!)]!
      this.sums[p] = clamp(sum, -bound, bound)
    }
  }

  /** The probability to win at `f` = p / in, after `load`. Never 0, never 1. */
  probability(lnF: number, lnIn: number): number {
    const q = sigmoid(this.sums[3]!)
    const t = sigmoid(this.sums[4]!)
    const slope = Math.max(0.3, this.sums[1]!)
    const s = sigmoid(this.sums[0]! + slope * lnF + this.sums[2]! * lnIn)
    return clamp(q * (t + (1 - t) * s), 1e-4, 1 - 1e-4)
  }

  /**
   * One observation, `y` 1 a win, 0 silence; `weight` below 0 undoes one. Linear in y, so that an exposure
   * (y = 0) and its win (the difference to y = 1) may be taught apart.
   */
  update(
    hashes: Uint32Array,
    lnF: number,
    lnIn: number,
    part: 'exposure' | 'win',
    weight: number,
  ): void {
    this.load(hashes)
    const w = this.probability(lnF, lnIn)
    const { gradient, sums } = this
    const q = sigmoid(sums[3]!)
    const t = sigmoid(sums[4]!)
    const slope = Math.max(0.3, sums[1]!)
    const s = sigmoid(sums[0]! + slope * lnF + sums[2]! * lnIn)
    const ds = q * (1 - t) * s * (1 - s)
    gradient[0] = ds
    gradient[1] = sums[1]! > 0.3 ? ds * lnF : 0
    gradient[2] = ds * lnIn
    gradient[3] = q * (1 - q) * (t + (1 - t) * s)
    gradient[4] = q * (1 - s) * t * (1 - t)
    const v = w * (1 - w)
    let spread = 0
    for (let p = 0; p < parameters.length; p++) {
      const g = gradient[p]!
      for (let at = 0; at < parameters[p]!.hashes; at++)
        spread += g * g * this.weightVariance(this.slot(p, hashes[at]!), p)
    }
    const gain = 1 / (1 + spread / v)
    const error = (part === 'exposure' ? -w : 1) * weight
    for (let p = 0; p < parameters.length; p++)
      this.step(p, hashes, gradient[p]!, gain, error / v, part, v)
  }

  private step(
    p: number,
    hashes: Uint32Array,
    g: number,
    gain: number,
    scaled: number,
    part: 'exposure' | 'win',
    v: number,
  ): void {
    const { hashes: count, variance: prior } = parameters[p]!
    for (let at = 0; at < count; at++) {
      const slot = this.slot(p, hashes[at]!)
      const before = this.weightVariance(slot, p)
      const mean = this.mean[slot]! + before * g * gain * scaled
      if (!Number.isFinite(mean)) continue
      this.mean[slot] = clamp(mean, -bound, bound)
      this.variance[slot] = before
      this.touched[slot] = p + 1
      // Only exposures carry information about how sure we are: one bid is one observation.
      if (part === 'win') continue
      const after = before - (before * before * g * g * gain) / v
      this.variance[slot] = clamp(after + forgetting * prior, prior * 1e-4, prior)
    }
  }
}
