/** W0 of one bid, with its derivatives: Q (L + (1 - L) s), L = T + (1 - T) F, s = sigmoid(e^B ln f + A + C x). */
import { parameterCount } from './priors.ts'

export const [pA, pB, pC, pQ, pT, pF] = [0, 1, 2, 3, 4, 5] as const
const edge = 1e-4
/** Bounds a probability away from 0 and 1. */
export const chanceOf = (w: number) => (w < edge ? edge : w > 1 - edge ? 1 - edge : w)

export class WinForm {
  /** Derivatives of W0 by the six sums, after `derive`. */
  readonly gradient = new Float64Array(parameterCount)
  q = 0
  l = 0
  slope = 1
  private t = 0
  private f = 0

  /**
   * Sets the parameters of one bid.
   *
   * @param q share that can be won at all, 0 to 1
   * @param t share that is won at any price, 0 to 1
   * @param f share that is won at the floor, 0 to 1
   * @param b logarithm of the slope, bounded to -1 to 4
   */
  set(q: number, t: number, f: number, b: number): void {
    this.q = q
    this.t = t
    this.f = f
    this.l = t + (1 - t) * f
    this.slope = Math.exp(b < -1 ? -1 : b > 4 ? 4 : b)
  }

  /**
   * W0, and its derivatives into `gradient`.
   *
   * @param s the logistic part, 0 to 1
   * @param lnF logarithm of price over own price, at most 0
   * @param x logarithm of the own price less its usual value
   */
  derive(s: number, lnF: number, x: number): number {
    const { gradient, q, l, t, f } = this
    const inner = l + (1 - l) * s
    const ds = q * (1 - l) * s * (1 - s)
    gradient[pA] = ds
    gradient[pB] = ds * this.slope * lnF
    gradient[pC] = ds * x
    gradient[pQ] = q * (1 - q) * inner
    gradient[pT] = q * (1 - s) * (1 - f) * t * (1 - t)
    gradient[pF] = q * (1 - s) * (1 - t) * f * (1 - f)
    return chanceOf(q * inner)
  }
}

/** The logistic function by a table, linear between steps of 1/64. Its error is below 3e-6; it takes a third of Math.exp's time. */
const reach = 16
const perUnit = 64
/** 8 KiB, in 32 bits so that it fits into the first-level cache beside the weights of a bid. */
const table = Float32Array.from(
  { length: 2 * reach * perUnit + 2 },
  (_each, n) => 1 / (1 + Math.exp(reach - n / perUnit)),
)

/**
 * 1 / (1 + exp(-x)), within 3e-6.
 *
 * @param x any number; NaN counts as the least
 */
export function sigmoid(x: number): number {
  if (!(x > -reach)) return table[0]!
  if (x >= reach) return table[2 * reach * perUnit]!
  const position = (x + reach) * perUnit
  const step = position | 0
  const low = table[step]!
  return low + (position - step) * (table[step + 1]! - low)
}
