/**
 * The win curve of a bid:
 *
 *   W(p) = K W0(p) + (1 - K) E(p),  W0(p) = Q (L + (1 - L) sigmoid(S ln f + A + C x)),  S = e^B,  L = T + (1 - T) F
 *
 * f = p / in; x = ln in less its usual value at the supplier; Q is the share that can be won at all, T the share that is won at any
 * price, F the share that is won at the floor. Every letter is the sum of hashed weights. They are fitted jointly to settled rows
 * (refit/), and updated by a diagonal extended Kalman step between two fits. E is the distribution of the lowest winning prices of
 * the bid's placement, and K the weight of W0 beside it.
 */

import { type Grid, tickOf } from '../decide/price-grid.ts'
import { chanceOf, pA, pB, pC, pF, pQ, pT, sigmoid, WinForm } from './form.ts'
import { savingFirst, savingSecond, usualSum } from './layout.ts'
import { PriceDensities } from './price-density.ts'
import { keyAt } from './priors.ts'
import { WeightSums } from './weight-sums.ts'
import { Step, Weights } from './weights.ts'

/** Variance of ln in around its usual value, and of whether a win cleared below the price sent. */
const [usualNoise, savingNoise] = [0.5, 0.1]
/** A smaller share of wins that clear below the price sent counts as 0. */
const leastSaving = 0.02

export class Curve {
  readonly weights = new Weights()
  readonly densities = new PriceDensities()
  /** The fine tick of the price in the last call of `wins`. */
  tick = 0
  private readonly loaded = new WeightSums(this.weights)
  private readonly sums = this.loaded.sums
  private readonly form = new WinForm()
  private readonly step = new Step(this.weights)
  private lnIn = 0
  private x = 0
  private floored = false
  /** `offset`: A + C x. `low` and `high`: K W0 = low + high * sigmoid. */
  private offset = 0
  private low = 0
  private high = 0
  /** The weights changed since they were added up. */
  private stale = false

  /**
   * Loads the weights of a bid. All other methods are about the bid that was loaded last.
   *
   * @param keys hashes by `keyAt`, 0: the bid has no such key; copied
   * @param lnIn natural logarithm of its own price, CPM in the base currency
   * @param floored whether it has a floor
   */
  loadBid(keys: Uint32Array, lnIn: number, floored: boolean): void {
    this.lnIn = lnIn
    this.floored = floored
    this.loaded.loadKeys(keys)
    this.densities.loadPlacement(keys[keyAt.placement]!)
    this.sumUp()
  }

  private sumUp(): void {
    const { sums, form } = this
    this.stale = false
    this.loaded.addWeights()
    this.x = this.lnIn - sums[usualSum]!
    const f = this.floored ? sigmoid(sums[pF]!) : 0
    form.set(sigmoid(sums[pQ]!), sigmoid(sums[pT]!), f, sums[pB]!)
    this.offset = sums[pA]! + sums[pC]! * this.x
    const share = form.q * this.densities.formShare
    this.low = share * form.l
    this.high = share * (1 - form.l)
  }

  /**
   * Writes the win probability at prices of a grid. A decision spends most of its time in this loop, so it calls nothing that it
   * can read before.
   *
   * @param grid its prices by tick
   * @param ticks of the places of `out`
   * @param out probabilities; those that are known already, 0 or more, are left as they are
   * @param from the first place
   * @param to the last place, included
   * @param by distance of two places, 1 or more
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

  /**
   * The probability to win, 0 to 1. Sets `tick`.
   *
   * @param price CPM in the base currency, above 0
   */
  wins(price: number): number {
    const ln = Math.log(price)
    this.tick = tickOf(ln)
    const s = sigmoid(this.form.slope * (ln - this.lnIn) + this.offset)
    return chanceOf(this.low + this.high * s + this.densities.below(this.tick))
  }

  /**
   * Trains with one observation of the loaded bid. The step is linear in the outcome, so exposure and win may be trained
   * separately and on different nodes.
   *
   * @param price that was sent, CPM in the base currency
   * @param part an exposure (as if lost), or its win (the difference). Only exposures change variances.
   * @param sign -1 reverts an exposure
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

  /**
   * The share of wins that clear below the price sent: a lower price saves nothing there. 0 to 1.
   *
   * @param second the bid is of a second-price auction
   */
  saving(second: boolean): number {
    const share = this.sums[savingSum(second)]!
    return share < leastSaving ? 0 : share > 1 ? 1 : share
  }

  /**
   * Trains with a win of the loaded bid.
   *
   * @param second the bid is of a second-price auction
   * @param saved it cleared below the price sent
   */
  trainSaving(second: boolean, saved: boolean): void {
    const sum = savingSum(second)
    const all = savingNoise + this.loaded.gather(sum, 1, this.step)
    this.step.move(((saved ? 1 : 0) - this.sums[sum]!) / all, 1 / all)
  }
}

const savingSum = (second: boolean) => (second ? savingSecond : savingFirst)
