/**
 * Searches the best price: argmax over p of (theta in + lambda - p) (W(p) - d W(in) (1 - p / in)) + s J(p). d is the doubt about what
 * a cut of the price loses. J is the integral of W from the lowest price to p, and s the share of wins that pay the second price:
 * they save what is below the price sent in any case. The coarse grid is searched first (steps of 5 %), then the fine steps around
 * its two best prices. W is made monotone from below.
 */
import type { Curve } from '../curve/curve.ts'
import { coarse, coarseGrid, fineGrid } from './price-grid.ts'

/** Coarse steps that are searched at most, down to a factor of .05. */
const most = 60
/** Below the first factor every second coarse step is searched, below the second every fourth. */
const [far, farther] = [0.4, 0.16]
/** A price above this factor saves nothing. */
const nearIn = 1 - 1e-4
const room = most + 2
/** Coarse steps between two knots. The steps between them are computed only where the best price may be. */
const stride = 4
const unknown = -1
/** Fine steps that are searched on either side of the best coarse step. */
const beside = 2
const roomFine = coarse + 2 * beside
/** The second best coarse step is refined as well if its value is above this share of the best. */
const close = 0.96

export interface PriceQuery {
  inBa: number
  /** The lowest permitted price, below inBa. */
  lowest: number
  /** theta in + lambda. */
  reward: number
  /** Share of wins that pay the second price. */
  saving: number
  /** Share of the wins at in that a price of 0 would lose beyond what the curve says, and others in proportion to their cut. */
  doubt: number
}

export class PriceSearch {
  /** Win probabilities at the best price, less the doubt, and at in, after `best`. */
  winOut = 0
  winIn = 0
  private readonly prices = new Float64Array(room)
  private readonly ticks = new Int32Array(room)
  private readonly chances = new Float64Array(room)
  private readonly saved = new Float64Array(room)
  private count = 0
  /** The fine steps of `refine`, and their win probabilities. */
  private readonly fine = new Int32Array(roomFine)
  private readonly found = new Float64Array(roomFine)
  private query: PriceQuery = { inBa: 1, lowest: 1, reward: 1, saving: 0, doubt: 0 }
  /** Win probability that is doubted of a price that is lower by 1. */
  private doubted = 0
  private price = 0
  private worth = 0

  /** The best price for the bid that is loaded in `curve`. */
  best(curve: Curve, query: PriceQuery): number {
    const { inBa, lowest, saving } = query
    this.query = query
    const from = Math.max(lowest, inBa * 0.05)
    this.layGrid(curve, from, inBa)
    const { chances, count, ticks } = this
    const last = count - 1
    this.doubted = (query.doubt * chances[last]!) / inBa
    if (saving > 0) curve.sweep(coarseGrid, ticks, chances, 1, last - 1, 1)
    else this.computeCoarse(curve, last)
    this.compact()
    this.worth = Number.NEGATIVE_INFINITY
    return this.pick(curve)
  }

  /** Sets up the coarse grid from the lowest price to in. Win probabilities are computed at its ends only. */
  private layGrid(curve: Curve, from: number, inBa: number): void {
    const { prices, ticks, chances } = this
    const { price: priceOf } = coarseGrid
    prices[0] = from
    chances[0] = curve.wins(from)
    let count = 1
    const lowest = (curve.tick / coarse) | 0
    const winIn = curve.wins(inBa)
    const highest = (curve.tick / coarse) | 0
    ticks[0] = lowest
    for (let tick = lowest; tick <= highest; tick++) {
      const price = priceOf[tick]!
      // Little is won far below in, and the best step is refined anyway, so fewer steps are enough.
      if (price < inBa * far && (tick & (price < inBa * farther ? 3 : 1)) !== 0) continue
      if (!(price > from && price < inBa * nearIn && count < room - 1)) continue
      prices[count] = price
      ticks[count] = tick
      chances[count++] = unknown
    }
    prices[count] = inBa
    ticks[count] = highest
    chances[count] = winIn
    this.count = count + 1
  }

  /**
   * Computes the knots, then the steps between two knots if the price of the lower one and the probability of the upper one
   * together beat the best.
   */
  private computeCoarse(curve: Curve, last: number): void {
    const { prices, chances, ticks } = this
    const { reward } = this.query
    curve.sweep(coarseGrid, ticks, chances, stride, last - 1, stride)
    let best = 0
    let highest = 0
    for (let n = 0; n <= last; n = n < last && n + stride > last ? last : n + stride) {
      highest = Math.max(highest, chances[n]!)
      best = Math.max(best, (reward - prices[n]!) * this.known(prices[n]!, highest))
    }
    highest = 0
    for (let n = 0; n < last; n += stride) {
      const to = Math.min(last, n + stride)
      highest = Math.max(highest, chances[n]!, chances[to]!)
      const price = prices[n]!
      if ((reward - price) * highest <= best) continue
      curve.sweep(coarseGrid, ticks, chances, n + 1, to - 1, 1)
      for (let index = n + 1; index < to; index++)
        best = Math.max(
          best,
          (reward - prices[index]!) * this.known(prices[index]!, chances[index]!),
        )
    }
  }

  /** The win probability at a price, less what is doubted of it. */
  private known(price: number, chance: number): number {
    return Math.max(0, chance - this.doubted * (this.query.inBa - price))
  }

  /** Keeps the steps that were computed, made monotone. */
  private compact(): void {
    const { prices, chances, saved, ticks } = this
    let count = 1
    for (let n = 1; n < this.count; n++) {
      if (chances[n] === unknown) continue
      const below = chances[count - 1]!
      const price = prices[n]!
      const chance = Math.max(below, chances[n]!)
      saved[count] = saved[count - 1]! + 0.5 * (below + chance) * (price - prices[count - 1]!)
      prices[count] = price
      ticks[count] = ticks[n]!
      chances[count++] = chance
    }
    this.count = count
  }

  private pick(curve: Curve): number {
    const { prices, chances } = this
    const last = this.count - 1
    this.winIn = chances[last]!
    this.price = prices[last]!
    this.winOut = this.winIn
    let [first, second] = [last, -1]
    let [firstWorth, secondWorth] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
    for (let n = last; n >= 0; n--) {
      const worth = this.valued(n, prices[n]!, chances[n]!)
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
    this.refine(curve, first)
    if (secondWorth > firstWorth * close && Math.abs(second - first) > 1) this.refine(curve, second)
    return this.price
  }

  /** The value of a price at or above coarse step `n`. Keeps the best price. */
  private valued(n: number, price: number, chance: number): number {
    const { saving, reward } = this.query
    const won = this.known(price, chance)
    let worth = (reward - price) * won
    if (saving > 0)
      worth +=
        saving * (this.saved[n]! + (price - this.prices[n]!) * 0.5 * (chance + this.chances[n]!))
    if (worth > this.worth) {
      this.worth = worth
      this.price = price
      this.winOut = won
    }
    return worth
  }

  /** Values the fine steps around a coarse one. */
  private refine(curve: Curve, about: number): void {
    const { prices, chances, fine, found } = this
    const low = Math.max(0, about - 1)
    const high = Math.min(this.count - 1, about + 1)
    const from = prices[low]!
    const to = prices[high]! * nearIn
    const first = this.ticks[about]! * coarse - beside
    let count = 0
    for (let tick = first > 0 ? first : 0; count < roomFine; tick++) {
      fine[count] = tick
      found[count++] = unknown
    }
    curve.sweep(fineGrid, fine, found, 0, count - 1, 1)
    let below = low
    let chance = chances[low]!
    for (let n = 0; n < count; n++) {
      const price = fineGrid.price[fine[n]!]!
      if (price <= from || price >= to) continue
      while (below + 1 <= high && prices[below + 1]! <= price) {
        below++
        chance = Math.max(chance, chances[below]!)
      }
      if (price === prices[below]!) continue
      chance = Math.max(chance, found[n]!)
      this.valued(below, price, chance)
    }
  }
}
