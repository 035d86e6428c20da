/**
 * The win curve of a bid:
 *
 *   W(p) = K W0(p) + (1 - K) E(p),  W0(p) = Q (L + (1 - L) sigmoid(S ln f + A + C x)),  S = e^B,  L = T + (1 - T) F
 *
 * f = p / in; x = ln in less its usual value; Q what can be won at all, T what is won at any price, F what is won at the
 * floor. Every letter is a sum of hashed weights, fitted jointly over settled rows (refit/) and between two fits by a
 * diagonal extended Kalman step. E is the distribution of prices of the bid's placement, K how much of it is W0.
 */

import { type Grid, tickOf } from '../decide/price-grid.ts'
import { Step } from './kalman-step.ts'
import { usualSum } from './layout.ts'
import { groupOf, PriceDensities } from './price-density.ts'
import { keyAt, parameterCount, tuned } from './priors.ts'
import { Savings } from './second-price.ts'
import { sigmoid } from './sigmoid.ts'
import { Sums } from './sums.ts'
import { Weights } from './weights.ts'

const [pA, pB, pC, pQ, pT, pF] = [0, 1, 2, 3, 4, 5] as const
const edge = 1e-4
/** e^B stays between these. */
const slopeOf = (b: number) => Math.exp(b < -1 ? -1 : b > 4 ? 4 : b)
/** Variance of ln in about its usual value. */
const usualNoise = 0.5

type Part = 'exposure' | 'win'

export class Curve {
  readonly weights = new Weights()
  readonly densities = new PriceDensities()
  private readonly loaded = new Sums(this.weights)
  private readonly sums = this.loaded.sums
  private readonly gradient = new Float64Array(parameterCount)
  private readonly step = new Step(this.weights, tuned.forgetting)
  readonly savings = new Savings(this.loaded, this.step)
  tick = 0
  private lnIn = 0
  private x = 0
  private floored = false
  /** Q, L, S, A + C x; and W as low + high sigmoid, with the share K. */
  private plateau = 0
  private foot = 0
  private slope = 1
  private offset = 0
  private low = 0
  private high = 0
  /** Weights of the loaded bid moved since they were summed. */
  private stale = false

  /** Finds the weights of a bid; everything else asks about the bid loaded last. */
  load(keys: Uint32Array, lnIn: number, floored: boolean): void {
    this.lnIn = lnIn
    this.floored = floored
    this.loaded.load(keys)
    this.densities.load(keys[keyAt.placement]!, groupOf(keys, floored))
    this.sumUp()
  }

  /** Its sums, also after weights have moved. */
  private sumUp(): void {
    this.stale = false
    const { sums } = this
    this.loaded.add()
    this.x = this.lnIn - sums[usualSum]!
    this.settle()
  }

  private settle(): void {
    const { sums } = this
    const t = sigmoid(sums[pT]!)
    const f = this.floored ? sigmoid(sums[pF]!) : 0
    this.plateau = sigmoid(sums[pQ]!)
    this.foot = t + (1 - t) * f
    this.slope = slopeOf(sums[pB]!)
    this.offset = sums[pA]! + sums[pC]! * this.x
    const share = this.plateau * this.densities.formShare
    this.low = share * this.foot
    this.high = share * (1 - this.foot)
  }

  /**
   * The probability to win at prices of a grid, into `out`: those of `ticks` from `from` to `to`, every `by`-th, where
   * nothing is known yet (a chance below 0). One loop with everything at hand: this is most of what a decision costs.
   */
  sweep(
    grid: Grid,
    ticks: Int32Array,
    out: Float64Array,
    from: number,
    to: number,
    by: number,
  ): void {
    const { low, high, slope, densities } = this
    const shift = this.offset - slope * this.lnIn
    const { ln, fine } = grid
    for (let n = from; n <= to; n += by) {
      if (out[n]! >= 0) continue
      const tick = ticks[n]!
      const w = low + high * sigmoid(slope * ln[tick]! + shift) + densities.below(fine[tick]!)
      out[n] = w < edge ? edge : w > 1 - edge ? 1 - edge : w
    }
  }

  /** The probability to win at any price, of which `tick` then is the fine tick. */
  wins(price: number): number {
    const ln = Math.log(price)
    this.tick = tickOf(ln)
    const s = sigmoid(this.slope * (ln - this.lnIn) + this.offset)
    const w = this.low + this.high * s + this.densities.below(this.tick)
    return w < edge ? edge : w > 1 - edge ? 1 - edge : w
  }

  /** What W0 says at a price, and how that leans on its parameters. */
  private ask(price: number): number {
    const { sums, gradient } = this
    const lnF = Math.log(price) - this.lnIn
    const steep = this.slope
    const s = sigmoid(steep * lnF + this.offset)
    const q = this.plateau
    const l = this.foot
    const t = sigmoid(sums[pT]!)
    const f = this.floored ? sigmoid(sums[pF]!) : 0
    const inner = l + (1 - l) * s
    const w = q * inner
    const ds = q * (1 - l) * s * (1 - s)
    gradient[pA] = ds
    gradient[pB] = ds * steep * lnF
    gradient[pC] = ds * this.x
    gradient[pQ] = q * (1 - q) * inner
    gradient[pT] = q * (1 - s) * (1 - f) * t * (1 - t)
    gradient[pF] = q * (1 - s) * (1 - t) * f * (1 - f)
    return w < edge ? edge : w > 1 - edge ? 1 - edge : w
  }

  /**
   * One observation of the loaded bid at `price`: an exposure (as if lost), or its win (the difference). Linear in the
   * outcome, so the two may be taught apart, on different nodes. `sign` -1 undoes an exposure.
   */
  teach(price: number, part: Part, sign: 1 | -1 = 1): void {
    if (part === 'win') this.move(price, 1, 0, 1, 0)
    else this.move(price, 0, 1, sign, sign)
    if (part === 'exposure') this.learnUsual(sign)
  }

  /** By the error `come - due W`, times `rate`; `sure`: how often it counts for how sure we are. */
  private move(price: number, come: number, due: number, rate: number, sure: number): void {
    if (this.stale) this.sumUp()
    this.stale = true
    const w = this.ask(price)
    const all = w * (1 - w) + this.loaded.gatherAll(this.gradient, this.step)
    this.step.move((rate * (come - due * w)) / all, sure / all)
  }

  private learnUsual(sign: number): void {
    const all = usualNoise + this.loaded.gather(usualSum, 1, this.step)
    this.step.move((sign * this.x) / all, sign / all)
  }
}
