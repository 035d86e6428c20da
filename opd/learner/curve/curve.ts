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
import { chanceOf, pA, pB, pC, pF, pQ, pT, sigmoid, WinForm } from './form.ts'
import { savingFirst, savingSecond, usualSum } from './layout.ts'
import { groupOf, PriceDensities } from './price-density.ts'
import { keyAt } from './priors.ts'
import { WeightSums } from './weight-sums.ts'
import { Step, Weights } from './weights.ts'

/** Variance of ln in about its usual value, and of whether a win was cheaper than what was sent. */
const [usualNoise, savingNoise] = [0.5, 0.1]
/** A share of wins that pay less than they bid is taken for none below this. */
const leastSaving = 0.02

export class Curve {
  readonly weights = new Weights()
  readonly densities = new PriceDensities()
  /** The fine tick of the price that `wins` was asked for last. */
  tick = 0
  private readonly loaded = new WeightSums(this.weights)
  private readonly sums = this.loaded.sums
  private readonly form = new WinForm()
  private readonly step = new Step(this.weights)
  private lnIn = 0
  private x = 0
  private floored = false
  /** A + C x; and K W0 as low + high sigmoid. */
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

  private sumUp(): void {
    const { sums, form } = this
    this.stale = false
    this.loaded.add()
    this.x = this.lnIn - sums[usualSum]!
    const f = this.floored ? sigmoid(sums[pF]!) : 0
    form.set(sigmoid(sums[pQ]!), sigmoid(sums[pT]!), f, sums[pB]!)
    this.offset = sums[pA]! + sums[pC]! * this.x
    const share = form.q * this.densities.formShare
    this.low = share * form.l
    this.high = share * (1 - form.l)
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
    const { low, high, densities } = this
    const { slope } = this.form
    const shift = this.offset - slope * this.lnIn
    const { ln, fine } = grid
    for (let n = from; n <= to; n += by) {
      if (out[n]! >= 0) continue
      const tick = ticks[n]!
      out[n] = chanceOf(
        low + high * sigmoid(slope * ln[tick]! + shift) + densities.below(fine[tick]!),
      )
    }
  }

  /** The probability to win at any price. */
  wins(price: number): number {
    const ln = Math.log(price)
    this.tick = tickOf(ln)
    const s = sigmoid(this.form.slope * (ln - this.lnIn) + this.offset)
    return chanceOf(this.low + this.high * s + this.densities.below(this.tick))
  }

  /**
   * One observation of the loaded bid at `price`: an exposure (as if lost), or its win (the difference). Linear in the
   * outcome, so the two may be trained apart, on different nodes. `sign` -1 undoes an exposure. A win does not say how sure
   * the weights are.
   */
  train(price: number, part: 'exposure' | 'win', sign: 1 | -1 = 1): void {
    if (this.stale) this.sumUp()
    this.stale = true
    const { form, loaded, step } = this
    const lnF = Math.log(price) - this.lnIn
    const w = form.derive(sigmoid(form.slope * lnF + this.offset), lnF, this.x)
    const all = w * (1 - w) + loaded.gatherAll(form.gradient, step)
    if (part === 'win') return step.move(1 / all, 0)
    step.move((-sign * w) / all, sign / all)
    const allUsual = usualNoise + loaded.gather(usualSum, 1, step)
    step.move((sign * this.x) / allUsual, sign / allUsual)
  }

  /** The share of wins that pay less than they bid, by supplier and kind of auction: there a lower bid saves nothing. */
  saving(second: boolean): number {
    const share = this.sums[savingSum(second)]!
    return share < leastSaving ? 0 : share > 1 ? 1 : share
  }

  trainSaving(second: boolean, saved: boolean): void {
    const sum = savingSum(second)
    const all = savingNoise + this.loaded.gather(sum, 1, this.step)
    this.step.move(((saved ? 1 : 0) - this.sums[sum]!) / all, 1 / all)
  }
}

const savingSum = (second: boolean) => (second ? savingSecond : savingFirst)
