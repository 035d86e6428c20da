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
import { largestUnit, roundedBy, stepsBelow, tickOf, unitIds, unitSize, unitsSeen } from './grid.ts'
import {
  bands,
  type Expert,
  experts,
  keyAt,
  means,
  mixing,
  type Priors,
  parameterCount,
  parameterNames,
  rounding,
  saving,
  tuned,
  usual,
} from './shape.ts'
import { sigmoid } from './sigmoid.ts'
import { slotMask, Weights } from './weights.ts'

/** A band of 4 steps is two bits wide. */
const bandShift = Int32Array.from(bands, ({ width }) => Math.log2(width))
const bandRelative = Uint8Array.from(bands, ({ relative }) => (relative ? 1 : 0))

/** Weights of one sum: kinds and the keys they belong to. */
interface Group {
  kinds: Int32Array
  keys: Int32Array
  slots: Int32Array
}

const [pA, pB, pC, pQ, pT, pF] = [0, 1, 2, 3, 4, 5] as const
const edge = 1e-4
/** e^B stays between these. */
const slopeOf = (b: number) => Math.exp(b < -1 ? -1 : b > 4 ? 4 : b)
/** Variance of ln in about its usual value. */
const usualNoise = 0.5

/** A price as the curve sees it. */
class Point {
  lnF = 0
  /** Fine tick, and fine steps below in. */
  tick = 0
  steps = 0
  unit = 0
  readonly moves = new Float64Array(unitsSeen)
}

/** What an expert says at a point, and how that leans on its parameters. */
class Answer {
  w = 0
  readonly gradient = new Float64Array(parameterCount)
}

export class Curve {
  readonly weights: Weights
  private readonly priors: number[] = []
  /** By expert, then parameter. */
  private readonly groups: Group[] = []
  private readonly rounds: Group
  private readonly usual: Group
  private readonly mixes: Group
  private readonly savings: Group
  private readonly bandKinds: Int32Array
  private readonly bandKeys: Int32Array
  private readonly bandSlots: Int32Array
  private readonly sums = new Float64Array(experts.length * parameterCount)
  /** Q, L and S of the loaded bid, by expert. */
  private readonly plateau = new Float64Array(experts.length)
  private readonly foot = new Float64Array(experts.length)
  private readonly slope = new Float64Array(experts.length)
  private readonly offset = new Float64Array(experts.length)
  private readonly roundShares = new Float64Array(unitIds + 8)
  private mix = 0.5
  private lnIn = 0
  private x = 0
  private floored = false
  private readonly point = new Point()
  private readonly answers = [new Answer(), new Answer()] as const

  constructor() {
    for (const expert of experts)
      for (const name of parameterNames) this.groups.push(this.group(expert[name as keyof Expert]))
    this.rounds = this.group(rounding)
    this.usual = this.group(usual)
    this.mixes = this.group(mixing)
    this.savings = this.group(saving)
    this.bandKinds = Int32Array.from(bands, ({ prior }) => this.priors.push(prior))
    this.bandKeys = Int32Array.from(bands, ({ key }) => keyAt[key])
    this.bandSlots = new Int32Array(bands.length)
    this.weights = new Weights(this.priors)
  }

  private group(priors: Priors): Group {
    const entries = Object.entries(priors) as [keyof typeof keyAt, number][]
    return {
      kinds: Int32Array.from(entries, ([, prior]) => this.priors.push(prior)),
      keys: Int32Array.from(entries, ([key]) => keyAt[key]),
      slots: new Int32Array(entries.length),
    }
  }

  /** Finds the weights of a bid; everything else asks about the bid loaded last. */
  load(keys: Uint32Array, lnIn: number, floored: boolean): void {
    this.lnIn = lnIn
    this.floored = floored
    this.x = lnIn - this.sum(this.usual, keys, 0)
    for (let n = 0; n < this.groups.length; n++)
      this.sums[n] = this.sum(this.groups[n]!, keys, means[n % parameterCount]!)
    this.mix = sigmoid(this.sum(this.mixes, keys, tuned.mixMean))
    for (let n = 0; n < this.rounds.kinds.length; n++)
      this.rounds.slots[n] = slotOf(this.rounds.kinds[n]!, keys[this.rounds.keys[n]!]!)
    for (let n = 0; n < this.bandKinds.length; n++)
      this.bandSlots[n] = slotOf(this.bandKinds[n]!, keys[this.bandKeys[n]!]!)
    this.settle()
  }

  /** The same bid again, after weights have moved: its sums. */
  reload(): void {
    this.x = this.lnIn - this.again(this.usual, 0)
    for (let n = 0; n < this.groups.length; n++)
      this.sums[n] = this.again(this.groups[n]!, means[n % parameterCount]!)
    this.mix = sigmoid(this.again(this.mixes, tuned.mixMean))
    this.settle()
  }

  private again({ slots }: Group, mean: number): number {
    let sum = mean
    for (let n = 0; n < slots.length; n++)
      if (slots[n]! >= 0) sum += this.weights.pairs[2 * slots[n]!]!
    return sum
  }

  private sum(group: Group, keys: Uint32Array, mean: number): number {
    const { kinds, slots } = group
    let sum = mean
    for (let n = 0; n < kinds.length; n++) {
      const slot = slotOf(kinds[n]!, keys[group.keys[n]!]!)
      slots[n] = slot
      if (slot >= 0) sum += this.weights.pairs[2 * slot]!
    }
    return sum
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

  private deviation(group: number): number {
    const { kinds, slots } = this.groups[group]!
    let variance = 0
    for (let n = 0; n < kinds.length; n++)
      if (slots[n]! >= 0) variance += this.weights.of(slots[n]!, kinds[n]!)
    return Math.sqrt(variance)
  }

  /** Makes ready for prices in [low, high]: shares of rounding competitors, by unit. */
  span(low: number, high: number): void {
    this.shares(largestUnit(high), Math.max(0, largestUnit(low) - unitsSeen + 1))
  }

  private shares(from: number, to: number): void {
    const { slots } = this.rounds
    const { pairs } = this.weights
    for (let id = from; id >= to; id--) {
      let sum = 0
      for (let n = 0; n < slots.length; n++)
        if (slots[n]! >= 0) sum += pairs[2 * ((slots[n]! + id) & slotMask)]!
      this.roundShares[id] = sum
    }
  }

  /** The probability to win at a price, by its place in the grid; `moves` from `at`, of `unit` and the ones below. */
  chance(lnPrice: number, tick: number, unit: number, moves: Float64Array, at: number): number {
    const lnF = lnPrice - this.lnIn
    let moved = lnF
    const units = unit < unitsSeen - 1 ? unit + 1 : unitsSeen
    for (let n = 0; n < units; n++) moved += this.roundShares[unit - n]! * moves[at + n]!
    const w1 =
      this.plateau[0]! *
      (this.foot[0]! + (1 - this.foot[0]!) * sigmoid(this.slope[0]! * (moved + this.offset[0]!)))
    const extra = this.banded(tick, stepsBelow(lnF))
    const w2 =
      this.plateau[1]! *
      (this.foot[1]! +
        (1 - this.foot[1]!) * sigmoid(this.slope[1]! * (moved + this.offset[1]!) + extra))
    const w = w1 + this.mix * (w2 - w1)
    return w < edge ? edge : w > 1 - edge ? 1 - edge : w
  }

  /** The sum of the bands' effects at a price. */
  private banded(tick: number, steps: number): number {
    const { bandSlots } = this
    const { pairs } = this.weights
    let sum = 0
    for (let n = 0; n < bandSlots.length; n++)
      if (bandSlots[n]! >= 0) sum += pairs[2 * this.bandAt(n, tick, steps)]!
    return sum
  }

  private bandAt(n: number, tick: number, steps: number): number {
    const from = bandRelative[n] === 1 ? steps : tick
    return (this.bandSlots[n]! + (from >> bandShift[n]!)) & slotMask
  }

  private aim(price: number): void {
    const { point } = this
    const lnPrice = Math.log(price)
    point.lnF = lnPrice - this.lnIn
    point.tick = tickOf(lnPrice)
    point.steps = stepsBelow(point.lnF)
    point.unit = largestUnit(price)
    for (let n = 0; n < unitsSeen; n++)
      point.moves[n] = n <= point.unit ? roundedBy(price, unitSize(point.unit - n)) : 0
    this.shares(point.unit, Math.max(0, point.unit - unitsSeen + 1))
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
    let m = point.lnF + this.offset[e]!
    for (let n = 0; n < unitsSeen && n <= point.unit; n++)
      m += this.roundShares[point.unit - n]! * point.moves[n]!
    const slope = this.slope[e]!
    const s = sigmoid(slope * m + (e === 1 ? this.banded(point.tick, point.steps) : 0))
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
  teach(price: number, part: 'exposure' | 'win', sign: 1 | -1 = 1): void {
    this.aim(price)
    const [one, other] = [this.ask(0), this.ask(1)]
    this.learnMix(one.w, other.w, part, sign)
    this.learn(0, one, part, sign)
    this.learn(1, other, part, sign)
    if (part === 'exposure') this.learnUsual(sign)
  }

  private learnMix(w1: number, w2: number, part: 'exposure' | 'win', sign: number): void {
    const w = w1 + this.mix * (w2 - w1)
    const v = w * (1 - w)
    const g = this.mix * (1 - this.mix) * (w2 - w1)
    const spread = this.spread(this.mixes) * g * g
    const scaled = (sign * (part === 'win' ? 1 : -w)) / (v + spread)
    this.step(this.mixes, g, scaled, part === 'win' ? 0 : sign / (v + spread))
  }

  private learnUsual(sign: number): void {
    const noise = usualNoise + this.spread(this.usual)
    this.step(this.usual, 1, (sign * this.x) / noise, sign / noise)
  }

  private spread({ kinds, slots }: Group): number {
    let sum = 0
    for (let n = 0; n < kinds.length; n++)
      if (slots[n]! >= 0) sum += this.weights.of(slots[n]!, kinds[n]!)
    return sum
  }

  /** `scaled`: error over (V + spread); `known`: 1 over the same, 0 where a win tells nothing of how sure we are. */
  private step({ kinds, slots }: Group, g: number, scaled: number, known: number): void {
    if (g === 0) return
    for (let n = 0; n < kinds.length; n++)
      if (slots[n]! >= 0) this.touch(slots[n]!, kinds[n]!, g, scaled, known)
  }

  private touch(slot: number, kind: number, g: number, scaled: number, known: number): void {
    const { weights } = this
    const v = weights.of(slot, kind)
    const less = known === 0 ? 0 : v * v * g * g * known - tuned.forgetting * weights.priors[kind]!
    weights.move(slot, kind, v * g * scaled, less)
  }

  private learn(e: 0 | 1, answer: Answer, part: 'exposure' | 'win', sign: number): void {
    const { gradient, w } = answer
    const at = e * parameterCount
    const { point, rounds, bandSlots, bandKinds, weights } = this
    const ds = gradient[pA]! / this.slope[e]!
    let spread = 0
    for (let p = 0; p < parameterCount; p++) {
      const g = gradient[p]!
      if (g !== 0) spread += g * g * this.spread(this.groups[at + p]!)
    }
    // Rounding is shared by the experts, and taught by the first.
    if (e === 0)
      for (let n = 0; n < unitsSeen && n <= point.unit; n++) {
        const g = gradient[pA]! * point.moves[n]!
        for (let r = 0; r < rounds.kinds.length; r++)
          if (rounds.slots[r]! >= 0)
            spread +=
              g * g * weights.of((rounds.slots[r]! + point.unit - n) & slotMask, rounds.kinds[r]!)
      }
    else
      for (let n = 0; n < bandSlots.length; n++)
        if (bandSlots[n]! >= 0)
          spread += ds * ds * weights.of(this.bandAt(n, point.tick, point.steps), bandKinds[n]!)
    const v = w * (1 - w)
    const scaled = (sign * (part === 'win' ? 1 : -w)) / (v + spread)
    const known = part === 'win' ? 0 : sign / (v + spread)
    for (let p = 0; p < parameterCount; p++)
      this.step(this.groups[at + p]!, gradient[p]!, scaled, known)
    if (e === 0)
      for (let n = 0; n < unitsSeen && n <= point.unit; n++) {
        const g = gradient[pA]! * point.moves[n]!
        for (let r = 0; r < rounds.kinds.length; r++)
          if (rounds.slots[r]! >= 0)
            this.touch(
              (rounds.slots[r]! + point.unit - n) & slotMask,
              rounds.kinds[r]!,
              g,
              scaled,
              known,
            )
      }
    else
      for (let n = 0; n < bandSlots.length; n++)
        if (bandSlots[n]! >= 0)
          this.touch(this.bandAt(n, point.tick, point.steps), bandKinds[n]!, ds, scaled, known)
  }

  /** The share of wins that paid less than they bid, for the bid's supplier and kind of auction; keys loaded by `load`. */
  saving(keys: Uint32Array, second: boolean): number {
    const share = this.sum(this.savings, second ? shifted(keys) : keys, second ? 0.75 : 0)
    return share < 0.02 ? 0 : share > 1 ? 1 : share
  }

  teachSaving(keys: Uint32Array, second: boolean, saved: boolean): void {
    const expected = this.sum(this.savings, second ? shifted(keys) : keys, second ? 0.75 : 0)
    const noise = 0.1 + this.spread(this.savings)
    this.step(this.savings, 1, ((saved ? 1 : 0) - expected) / noise, 1 / noise)
  }
}

const other = new Uint32Array(64)
/** Keys of a second-price auction: its own weights. */
function shifted(keys: Uint32Array): Uint32Array {
  for (let n = 0; n < keys.length; n++) other[n] = keys[n] === 0 ? 0 : keys[n]! ^ 0x5bd1e995 || 1
  return other
}

/** Where the weight of a kind and key lies; -1: the bid has no such key. */
function slotOf(kind: number, key: number): number {
  if (key === 0) return -1
  let value = Math.imul(key ^ Math.imul(kind, 0x9e3779b1), 0x85ebca6b)
  value ^= value >>> 15
  return (Math.imul(value, 0x2c1b3c6d) >>> 11) & slotMask
}
