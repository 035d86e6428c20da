/**
 * The price: argmax over p of (theta in + lambda - p) W(p) + s J(p), J the integral of W from the lowest price to p: where the
 * second price is paid (a share s of wins), what lies below the border is saved anyway. Coarse grid first, every 5 %, then the
 * fine steps about its two best. W is made monotone from below.
 */
import type { Curve } from './curve.ts'
import {
  coarse,
  coarseMantissas,
  coarsePrice,
  decade,
  fineMantissas,
  finePrice,
  largestUnit,
  roundedBy,
  tickOf,
  unitSize,
  unitsSeen,
} from './grid.ts'

/** How a price of the grid looks to units of rounding: moves of the five largest that matter, from `largest` down. */
interface Looks {
  moves: Float64Array
  largest: Int32Array
  ln: Float64Array
  /** Fine tick within the decade. */
  tick: Int32Array
}

function looks(mantissas: Float64Array): Looks {
  const moves = new Float64Array(mantissas.length * unitsSeen)
  const largest = new Int32Array(mantissas.length)
  mantissas.forEach((price, at) => {
    const unit = largestUnit(price)
    largest[at] = unit - largestUnit(1)
    for (let n = 0; n < unitsSeen; n++)
      moves[at * unitsSeen + n] = roundedBy(price, unitSize(unit - n))
  })
  return {
    moves,
    largest,
    ln: mantissas.map(Math.log),
    tick: Int32Array.from(mantissas, (price) => tickOf(Math.log(price)) - tickOf(0)),
  }
}

const fineLooks = looks(fineMantissas)
const coarseLooks = looks(coarseMantissas)
const unitOfOne = largestUnit(1)
const zeroDecade = Math.floor(tickOf(0) / decade)
/** More coarse steps than this below in are not tried: that is a factor of .05. */
const most = 60
const far = 0.4
/** A price nearer to in than this saves nothing. */
const nearIn = 1 - 1e-4
const room = most + 2

export interface Asked {
  inBa: number
  /** The lowest price that may be asked, below inBa. */
  lowest: number
  /** theta in + lambda. */
  reward: number
  /** Share of wins that pay the second price. */
  saving: number
  /** W(p) is taken to be (p / in)^bias of the curve's. */
  bias: number
}

export class Chooser {
  /** Chances at the price chosen and at in, after `best`. */
  winOut = 0
  winIn = 0
  private readonly prices = new Float64Array(room)
  private readonly chances = new Float64Array(room)
  private readonly saved = new Float64Array(room)
  private bias = 0
  private inBa = 0
  private count = 0
  private price = 0
  private worth = 0

  /** `curve` has the bid loaded. */
  best(curve: Curve, { inBa, lowest, reward, saving, bias }: Asked): number {
    this.bias = bias
    this.inBa = inBa
    const from = Math.max(lowest, inBa * 0.05)
    curve.span(from, inBa)
    this.count = 0
    this.put(from, curve.wins(from))
    const width = decade / coarse
    const lastTick = Math.floor(tickOf(Math.log(inBa)) / coarse)
    for (let tick = Math.floor(tickOf(Math.log(from)) / coarse); tick <= lastTick; tick++) {
      const price = coarsePrice(tick)
      // Far below in every other step is enough: little is won there, and the best is refined anyway.
      if (price < inBa * far && (tick & 1) === 1) continue
      if (price > from && price < inBa * nearIn && this.count < room - 1)
        this.put(price, this.at(curve, tick, width, coarseLooks))
    }
    this.put(inBa, curve.wins(inBa))
    const last = this.count - 1
    this.winIn = this.chances[last]!
    this.price = inBa
    this.winOut = this.winIn
    this.worth = Number.NEGATIVE_INFINITY
    let [first, second] = [last, -1]
    let [firstWorth, secondWorth] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
    for (let n = last; n >= 0; n--) {
      const worth = this.valued(reward, saving, n, this.prices[n]!, this.chances[n]!)
      if (worth > firstWorth) {
        second = first
        secondWorth = firstWorth
        first = n
        firstWorth = worth
      } else if (worth > secondWorth) {
        second = n
        secondWorth = worth
      }
    }
    this.refine(curve, reward, saving, first)
    if (second >= 0 && Math.abs(second - first) > 1) this.refine(curve, reward, saving, second)
    return this.price
  }

  private put(price: number, chance: number): void {
    const n = this.count++
    const below = n === 0 ? 0 : this.chances[n - 1]!
    this.prices[n] = price
    this.chances[n] = chance > below ? chance : below
    this.saved[n] =
      n === 0
        ? 0
        : this.saved[n - 1]! + 0.5 * (below + this.chances[n]!) * (price - this.prices[n - 1]!)
  }

  private at(curve: Curve, tick: number, perDecade: number, of: Looks): number {
    const ten = Math.floor(tick / perDecade)
    const at = tick - ten * perDecade
    const shift = ten - zeroDecade
    return curve.chance(
      of.ln[at]! + shift * Math.LN10,
      of.tick[at]! + ten * decade,
      unitOfOne + of.largest[at]! + 3 * shift,
      of.moves,
      at * unitsSeen,
    )
  }

  /** Values a price that lies at or above coarse step `n`, and keeps the best. */
  private valued(reward: number, saving: number, n: number, price: number, chance: number): number {
    // (p / in)^bias, its Padé approximant about p = in: 1 % off at a factor of .5
    const { bias, inBa } = this
    const [less, more] = [1 - bias, 1 + bias]
    const biased = (more * price + less * inBa) / (less * price + more * inBa)
    let worth = (reward - price) * chance * biased
    if (saving > 0)
      worth +=
        saving * (this.saved[n]! + (price - this.prices[n]!) * 0.5 * (chance + this.chances[n]!))
    if (worth > this.worth) {
      this.worth = worth
      this.price = price
      this.winOut = chance
    }
    return worth
  }

  private refine(curve: Curve, reward: number, saving: number, about: number): void {
    const low = Math.max(0, about - 1)
    const high = Math.min(this.count - 1, about + 1)
    const to = this.prices[high]!
    let below = low
    let chance = this.chances[low]!
    const end = tickOf(Math.log(to))
    for (let tick = tickOf(Math.log(this.prices[low]!)); tick <= end; tick++) {
      const price = finePrice(tick)
      if (price <= this.prices[low]! || price >= to * nearIn) continue
      while (below + 1 <= high && this.prices[below + 1]! <= price) {
        below++
        chance = Math.max(chance, this.chances[below]!)
      }
      if (price === this.prices[below]!) continue
      chance = Math.max(chance, this.at(curve, tick, decade, fineLooks))
      this.valued(reward, saving, below, price, chance)
    }
  }
}
