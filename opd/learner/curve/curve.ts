/**
 * The win curve: two experts of one form,
 *
 *   W(p) = Q (L + (1 - L) sigmoid(S m + G)),  m = ln f + A + C x + sum r_g u_g(p),  S = e^B,  L = T + (1 - T) F
 *
 * f = p / in, x = ln in less its usual value for the publisher; Q what can be won at all, T what is won at any price, F what
 * is won at the floor; r_g the share of competitors who round to the unit g, u_g how far that moves the border at p.
 * G, in the second expert only, are effects of single bands of prices. W = W1 + M (W2 - W1). Every letter is a sum of
 * hashed weights, taught by a diagonal extended Kalman step.
 */

import { type Grid, stepsBelow, unitsSeen } from '../decide/price-grid.ts'
import { Step } from './kalman-step.ts'
import { blocks, mixSum, usualSum } from './layout.ts'
import { Bands, Point, priceFamilies, Rounds } from './price-effects.ts'
import { parameterCount, tuned } from './priors.ts'
import { Savings } from './second-price.ts'
import { sigmoid } from './sigmoid.ts'
import { Sums } from './sums.ts'
import { Weights } from './weights.ts'

const [pA, pB, pC, pQ, pT, pF] = [0, 1, 2, 3, 4, 5] as const
const experts = [0, 1] as const
const edge = 1e-4
/** e^B stays between these. */
const slopeOf = (b: number) => Math.exp(b < -1 ? -1 : b > 4 ? 4 : b)
/** Variance of ln in about its usual value. */
const usualNoise = 0.5

type Part = 'exposure' | 'win'

/** What is the same at all prices of the loaded bid, by expert: places in `state`. */
const [plateau, foot, slope, offset, low, high] = [0, 2, 4, 6, 8, 10] as const

export class Curve {
  readonly weights = new Weights([...blocks.map(({ priors }) => priors), ...priceFamilies])
  private readonly rounds = new Rounds(this.weights, blocks.length)
  private readonly bands = new Bands(this.weights, blocks.length)
  private readonly loaded = new Sums(this.weights)
  private readonly sums = this.loaded.sums
  private readonly state = new Float64Array(12)
  private readonly gradient = new Float64Array(2 * parameterCount)
  /** What each expert says at the point. */
  private readonly said = new Float64Array(2)
  /** Weights about to move: of one expert, of one sum. */
  private readonly many = new Step(this.weights, tuned.forgetting)
  private readonly few = new Step(this.weights, tuned.forgetting)
  readonly savings = new Savings(this.loaded, this.few)
  tick = 0
  private mix = 0.5
  private lnIn = 0
  private x = 0
  private floored = false
  /** Weights of the loaded bid moved since they were summed. */
  private stale = false
  private readonly point = new Point()

  /** Finds the weights of a bid; everything else asks about the bid loaded last. */
  load(keys: Uint32Array, lnIn: number, floored: boolean): void {
    this.lnIn = lnIn
    this.floored = floored
    this.loaded.load(keys)
    this.rounds.load(keys)
    this.bands.load(keys)
    this.sumUp()
  }

  /** Its sums, also after weights have moved. */
  private sumUp(): void {
    this.stale = false
    const { sums } = this
    this.loaded.add()
    this.x = this.lnIn - sums[usualSum]!
    this.mix = sigmoid(sums[mixSum]!)
    this.bands.forget()
    this.rounds.forget()
    this.settle()
  }

  /** Q, L, S and A + C x from the sums; and W as low + high sigmoid. */
  private settle(): void {
    const { sums, state, mix } = this
    for (const e of experts) {
      const at = e * parameterCount
      const t = sigmoid(sums[at + pT]!)
      const f = this.floored ? sigmoid(sums[at + pF]!) : 0
      const q = sigmoid(sums[at + pQ]!)
      const l = t + (1 - t) * f
      const share = e === 0 ? 1 - mix : mix
      state[plateau + e] = q
      state[foot + e] = l
      state[slope + e] = slopeOf(sums[at + pB]!)
      state[offset + e] = sums[at + pA]! + sums[at + pC]! * this.x
      state[low + e] = share * q * l
      state[high + e] = share * q * (1 - l)
    }
  }

  /** Leans the loaded curve to the cautious side: steeper, by shares of a deviation. */
  caution(): void {
    for (const e of experts) {
      const at = e * parameterCount + pB
      this.sums[at]! += tuned.pessimistB * Math.sqrt(this.loaded.spread(at))
      this.state[slope + e] = slopeOf(this.sums[at]!)
    }
  }

  /** Makes ready for prices of which the lowest may be rounded by `low`, the highest by `high`. */
  span(low: number, high: number): void {
    this.rounds.span(high, low - unitsSeen + 1)
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
    const { state, lnIn, rounds, bands } = this
    const [low12, high1, high2] = [state[low]! + state[low + 1]!, state[high]!, state[high + 1]!]
    const [slope1, slope2] = [state[slope]!, state[slope + 1]!]
    const [offset1, offset2] = [state[offset]!, state[offset + 1]!]
    const { ln, fine, unit, move, moves } = grid
    const { shares } = rounds
    for (let n = from; n <= to; n += by) {
      if (out[n]! >= 0) continue
      const tick = ticks[n]!
      const lnF = ln[tick]! - lnIn
      const share = unit[tick]!
      const at = move[tick]!
      const moved =
        lnF +
        shares[share]! * moves[at]! +
        shares[share - 1]! * moves[at + 1]! +
        shares[share - 2]! * moves[at + 2]! +
        shares[share - 3]! * moves[at + 3]! +
        shares[share - 4]! * moves[at + 4]!
      const extra = bands.sum(fine[tick]!, stepsBelow(lnF))
      const w =
        low12 +
        high1 * sigmoid(slope1 * (moved + offset1)) +
        high2 * sigmoid(slope2 * (moved + offset2) + extra)
      out[n] = w < edge ? edge : w > 1 - edge ? 1 - edge : w
    }
  }

  private aim(price: number): void {
    this.point.aim(price, this.lnIn)
    this.rounds.span(this.point.unit, this.point.unit - unitsSeen + 1)
  }

  /** The probability to win at any price, of which `tick` then is the fine tick. */
  wins(price: number): number {
    this.aim(price)
    const { point, state } = this
    this.tick = point.tick
    const moved = point.lnF + this.rounds.moved(point)
    const extra = this.bands.sum(point.tick, point.steps)
    const w =
      state[low]! +
      state[low + 1]! +
      state[high]! * sigmoid(state[slope]! * (moved + state[offset]!)) +
      state[high + 1]! * sigmoid(state[slope + 1]! * (moved + state[offset + 1]!) + extra)
    return w < edge ? edge : w > 1 - edge ? 1 - edge : w
  }

  /** What an expert says at the point, and how that leans on its parameters. */
  private ask(e: 0 | 1, moved: number, extra: number): void {
    const { sums, state, gradient } = this
    const at = e * parameterCount
    const m = moved + state[offset + e]!
    const steep = state[slope + e]!
    const s = sigmoid(steep * m + extra)
    const q = state[plateau + e]!
    const l = state[foot + e]!
    const t = sigmoid(sums[at + pT]!)
    const f = this.floored ? sigmoid(sums[at + pF]!) : 0
    const inner = l + (1 - l) * s
    const w = q * inner
    const ds = q * (1 - l) * s * (1 - s)
    this.said[e] = w < edge ? edge : w > 1 - edge ? 1 - edge : w
    gradient[at + pA] = ds * steep
    gradient[at + pB] = ds * steep * m
    gradient[at + pC] = ds * steep * this.x
    gradient[at + pQ] = q * (1 - q) * inner
    gradient[at + pT] = q * (1 - s) * (1 - f) * t * (1 - t)
    gradient[at + pF] = q * (1 - s) * (1 - t) * f * (1 - f)
  }

  /**
   * One observation of the loaded bid at `price`: an exposure (as if lost), or its win (the difference). Linear in the
   * outcome, so the two may be taught apart, on different nodes. `sign` -1 undoes an exposure.
   */
  teach(price: number, part: Part, sign: 1 | -1 = 1): void {
    if (part === 'win') this.step(price, 1, 0, 1, 0)
    else this.step(price, 0, 1, sign, sign)
    if (part === 'exposure') this.learnUsual(sign)
  }

  /** An observation once more, with what became of it, by a share of a step. It makes nothing surer. */
  rehearse(price: number, won: boolean, rate: number): void {
    this.step(price, won ? 1 : 0, 1, rate, 0)
  }

  /** By the error `come - due W`, times `rate`; `sure`: how often it counts for how sure we are. */
  private step(price: number, come: number, due: number, rate: number, sure: number): void {
    if (this.stale) this.sumUp()
    this.stale = true
    this.aim(price)
    const { point, said } = this
    const moved = point.lnF + this.rounds.moved(point)
    this.ask(0, moved, 0)
    this.ask(1, moved, this.bands.sum(point.tick, point.steps))
    const [w1, w2] = [said[0]!, said[1]!]
    const w = w1 + this.mix * (w2 - w1)
    this.learnMix(w, w2 - w1, rate * (come - due * w), sure)
    this.learn(0, rate * (come - due * w1), sure)
    this.learn(1, rate * (come - due * w2), sure)
  }

  private learnMix(w: number, apart: number, error: number, sure: number): void {
    const g = this.mix * (1 - this.mix) * apart
    const all = w * (1 - w) + this.loaded.gather(mixSum, g, this.few)
    this.few.move(error / all, sure / all)
  }

  private learnUsual(sign: number): void {
    const all = usualNoise + this.loaded.gather(usualSum, 1, this.few)
    this.few.move((sign * this.x) / all, sign / all)
  }

  private learn(e: 0 | 1, error: number, sure: number): void {
    const { gradient, point, rounds, bands, state, many } = this
    const w = this.said[e]!
    const g = gradient[e * parameterCount + pA]!
    many.clear()
    let all = w * (1 - w) + this.loaded.gatherExpert(e, gradient, many)
    // Rounding is shared by the experts, and taught by the first.
    all +=
      e === 0 ? rounds.gather(point, g, many) : bands.gather(point, g / state[slope + e]!, many)
    many.move(error / all, sure / all)
  }
}
