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
import { Bands, Point, Rounds } from './effects.ts'
import { largestUnit, stepsBelow, unitsSeen } from './grid.ts'
import { type Group, Groups } from './groups.ts'
import { Saving } from './saving.ts'
import { experts, means, mixing, parameterCount, parameterNames, tuned, usual } from './shape.ts'
import { sigmoid } from './sigmoid.ts'
import type { Weights } from './weights.ts'

const [pA, pB, pC, pQ, pT, pF] = [0, 1, 2, 3, 4, 5] as const
const edge = 1e-4
/** e^B stays between these. */
const slopeOf = (b: number) => Math.exp(b < -1 ? -1 : b > 4 ? 4 : b)
/** Variance of ln in about its usual value. */
const usualNoise = 0.5

type Part = 'exposure' | 'win'

/** What an expert says at a point, and how that leans on its parameters. */
class Answer {
  w = 0
  readonly gradient = new Float64Array(parameterCount)
}

export class Curve {
  private readonly groups = new Groups()
  /** By expert, then parameter. */
  private readonly parameters: Group[]
  private readonly rounds = new Rounds(this.groups)
  private readonly bands = new Bands(this.groups)
  private readonly usual = this.groups.make(usual)
  private readonly mixes = this.groups.make(mixing)
  readonly saving = new Saving(this.groups)
  private readonly sums = new Float64Array(experts.length * parameterCount)
  /** Q, L, S and A + C x of the loaded bid, by expert. */
  private readonly plateau = new Float64Array(experts.length)
  private readonly foot = new Float64Array(experts.length)
  private readonly slope = new Float64Array(experts.length)
  private readonly offset = new Float64Array(experts.length)
  private mix = 0.5
  private lnIn = 0
  private x = 0
  private floored = false
  private readonly point = new Point()
  private readonly answers = [new Answer(), new Answer()] as const

  constructor() {
    this.parameters = experts.flatMap((expert) =>
      parameterNames.map((name) => this.groups.make(expert[name])),
    )
  }

  get weights(): Weights {
    return this.groups.weights
  }

  /** Finds the weights of a bid; everything else asks about the bid loaded last. */
  load(keys: Uint32Array, lnIn: number, floored: boolean): void {
    const { groups } = this
    this.lnIn = lnIn
    this.floored = floored
    groups.place(this.usual, keys)
    groups.place(this.mixes, keys)
    for (const group of this.parameters) groups.place(group, keys)
    this.rounds.load(keys)
    this.bands.load(keys)
    this.reload()
  }

  /** The same bid again, after weights have moved: its sums. */
  reload(): void {
    const { groups } = this
    this.x = this.lnIn - groups.sum(this.usual, 0)
    for (let n = 0; n < this.parameters.length; n++)
      this.sums[n] = groups.sum(this.parameters[n]!, means[n % parameterCount]!)
    this.mix = sigmoid(groups.sum(this.mixes, tuned.mixMean))
    this.settle()
  }

  /** Q, L, S and A + C x from the sums. */
  private settle(): void {
    for (let e = 0; e < experts.length; e++) {
      const at = e * parameterCount
      const t = sigmoid(this.sums[at + pT]!)
      const f = this.floored ? sigmoid(this.sums[at + pF]!) : 0
      this.plateau[e] = sigmoid(this.sums[at + pQ]!)
      this.foot[e] = t + (1 - t) * f
      this.slope[e] = slopeOf(this.sums[at + pB]!)
      this.offset[e] = this.sums[at + pA]! + this.sums[at + pC]! * this.x
    }
  }

  /** Leans the loaded curve to the cautious side: steeper, and less is won at any price, by shares of a deviation. */
  caution(): void {
    for (let e = 0; e < experts.length; e++) {
      const at = e * parameterCount
      this.sums[at + pB]! += tuned.pessimistB * this.deviation(at + pB)
      if (tuned.pessimistT > 0) this.sums[at + pT]! -= tuned.pessimistT * this.deviation(at + pT)
      if (tuned.pessimistF > 0 && this.floored)
        this.sums[at + pF]! -= tuned.pessimistF * this.deviation(at + pF)
    }
    this.settle()
  }

  private deviation(parameter: number): number {
    return Math.sqrt(this.groups.spread(this.parameters[parameter]!))
  }

  /** Makes ready for prices in [low, high]. */
  span(low: number, high: number): void {
    this.rounds.span(largestUnit(high), largestUnit(low) - unitsSeen + 1)
  }

  /** The probability to win at a price, by its place in the grid; `moves` from `at`, of `unit` and the ones below. */
  chance(lnPrice: number, tick: number, unit: number, moves: Float64Array, at: number): number {
    const lnF = lnPrice - this.lnIn
    const moved = lnF + this.rounds.moved(unit, moves, at)
    const w1 =
      this.plateau[0]! *
      (this.foot[0]! + (1 - this.foot[0]!) * sigmoid(this.slope[0]! * (moved + this.offset[0]!)))
    const extra = this.bands.sum(tick, stepsBelow(lnF))
    const w2 =
      this.plateau[1]! *
      (this.foot[1]! +
        (1 - this.foot[1]!) * sigmoid(this.slope[1]! * (moved + this.offset[1]!) + extra))
    const w = w1 + this.mix * (w2 - w1)
    return w < edge ? edge : w > 1 - edge ? 1 - edge : w
  }

  private aim(price: number): void {
    this.point.aim(price, this.lnIn)
    this.rounds.span(this.point.unit, this.point.unit - unitsSeen + 1)
  }

  /** The same at any price. */
  wins(price: number): number {
    this.aim(price)
    const { point } = this
    return this.chance(point.lnF + this.lnIn, point.tick, point.unit, point.moves, 0)
  }

  private ask(e: 0 | 1): Answer {
    const { point } = this
    const answer = this.answers[e]
    const at = e * parameterCount
    const m = point.lnF + this.offset[e]! + this.rounds.moved(point.unit, point.moves, 0)
    const slope = this.slope[e]!
    const s = sigmoid(slope * m + (e === 1 ? this.bands.sum(point.tick, point.steps) : 0))
    const q = this.plateau[e]!
    const foot = this.foot[e]!
    const t = sigmoid(this.sums[at + pT]!)
    const f = this.floored ? sigmoid(this.sums[at + pF]!) : 0
    const inner = foot + (1 - foot) * s
    const w = q * inner
    const ds = q * (1 - foot) * s * (1 - s)
    const { gradient } = answer
    answer.w = w < edge ? edge : w > 1 - edge ? 1 - edge : w
    gradient[pA] = ds * slope
    gradient[pB] = ds * slope * m
    gradient[pC] = ds * slope * this.x
    gradient[pQ] = q * (1 - q) * inner
    gradient[pT] = q * (1 - s) * (1 - f) * t * (1 - t)
    gradient[pF] = q * (1 - s) * (1 - t) * f * (1 - f)
    return answer
  }

  /**
   * One observation of the loaded bid at `price`: an exposure (as if lost), or its win (the difference). Linear in the
   * outcome, so the two may be taught apart, on different nodes. `sign` -1 undoes an exposure.
   */
  teach(price: number, part: Part, sign: 1 | -1 = 1): void {
    this.aim(price)
    const [one, other] = [this.ask(0), this.ask(1)]
    this.learnMix(one.w, other.w, part, sign)
    this.learn(0, one, part, sign)
    this.learn(1, other, part, sign)
    if (part === 'exposure') this.learnUsual(sign)
  }

  private learnMix(w1: number, w2: number, part: Part, sign: number): void {
    const w = w1 + this.mix * (w2 - w1)
    const v = w * (1 - w)
    const g = this.mix * (1 - this.mix) * (w2 - w1)
    const all = v + this.groups.spread(this.mixes) * g * g
    const error = part === 'win' ? 1 : -w
    this.groups.step(this.mixes, g, (sign * error) / all, part === 'win' ? 0 : sign / all)
  }

  private learnUsual(sign: number): void {
    const all = usualNoise + this.groups.spread(this.usual)
    this.groups.step(this.usual, 1, (sign * this.x) / all, sign / all)
  }

  private learn(e: 0 | 1, { gradient, w }: Answer, part: Part, sign: number): void {
    const { groups, parameters, point, rounds, bands } = this
    const at = e * parameterCount
    const ds = gradient[pA]! / this.slope[e]!
    let spread = e === 0 ? rounds.spread(point, gradient[pA]!) : ds * ds * bands.spread(point)
    for (let p = 0; p < parameterCount; p++) {
      const g = gradient[p]!
      if (g !== 0) spread += g * g * groups.spread(parameters[at + p]!)
    }
    const all = w * (1 - w) + spread
    const scaled = (sign * (part === 'win' ? 1 : -w)) / all
    const known = part === 'win' ? 0 : sign / all
    for (let p = 0; p < parameterCount; p++)
      groups.step(parameters[at + p]!, gradient[p]!, scaled, known)
    // Rounding is shared by the experts, and taught by the first.
    if (e === 0) rounds.step(point, gradient[pA]!, scaled, known)
    else bands.step(point, ds, scaled, known)
  }
}
