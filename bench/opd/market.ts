/** What a market is to the driver: one offer after the other, each with its true win curve. */
import type { BidFacts } from '../../opd/learner.ts'

/** One bid. The object is reused by its market: what is to be kept must be copied. */
export interface Offer {
  readonly facts: BidFacts
  /** True probability to win at `price`. Never falls. */
  wins(price: number): number
  /** Expected margin at `price` on the true curve: a win's in less what is paid, times the chance of the win. */
  margin(price: number): number
  /** What is paid when `price` wins; `u` is the bid's own uniform number: it won because `u < wins(price)`. */
  clears(price: number, u: number): number
  /** The lowest price that would win, by the bid's own uniform number; absent: by bisection of `wins`. */
  lowest?(u: number): number
  /** Prices worth a look besides a grid: where the curve jumps. */
  jumps(): Iterable<number>
}

export interface Market {
  readonly name: string
  /** Virtual milliseconds between two bids. */
  readonly every: number
  /** The `n`-th offer, at virtual time `now`; called in order, once each. */
  offer(n: number, now: number): Offer
  /** How the market sees what was sent; markets that react override it. */
  sees?(price: number, won: boolean, now: number): void
}

export type MarketOf = (seed: number) => Market

export const day = 86_400_000
/** Milliseconds between two bids, usually. */
export const usualEvery = day / 150_000

/** The facts of a market's bids, to be filled. */
export const newFacts = (): BidFacts => ({ supplier: '', mode: 'revenue', inBa: 1, floor: 0 })

/** An offer where the price that is sent is paid. */
export function firstPriceOffer(
  facts: BidFacts,
  wins: Offer['wins'],
  more: Partial<Offer> = {},
): Offer {
  const margin = (price: number) => firstPrice({ facts, wins }, price)
  return { facts, wins, margin, clears: (price) => price, jumps: () => [], ...more }
}

/** Standard normal distribution function; error under 2e-7 (Abramowitz and Stegun 7.1.26). */
export function normalBelow(x: number): number {
  const z = Math.abs(x) * Math.SQRT1_2
  const t = 1 / (1 + 0.3275911 * z)
  const poly =
    t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
  const half = 0.5 * poly * Math.exp(-z * z)
  return x > 0 ? 1 - half : half
}

/** Competitors' highest bid as a mixture: log-normal parts, ones that round, and a share that never bids. */
export class Mixture {
  readonly weights: number[] = []
  readonly means: number[] = []
  readonly spreads: number[] = []
  /** Log-normal ones that round to whole multiples of a grid. */
  private share = 0
  private mean = 0
  private spread = 1
  private grid = 1
  private readonly shown: number[] = []
  /** Won at any price: nobody else bids. */
  always = 0

  clear(): void {
    this.weights.length = this.means.length = this.spreads.length = 0
    this.share = this.always = 0
  }

  part(weight: number, mean: number, spread: number): void {
    this.weights.push(weight)
    this.means.push(mean)
    this.spreads.push(spread)
  }

  rounded(share: number, mean: number, spread: number, grid: number): void {
    this.share = share
    this.mean = mean
    this.spread = spread
    this.grid = grid
  }

  /** Multiples of the grid in [from, to]. */
  jumps(from: number, to: number): readonly number[] {
    this.shown.length = 0
    if (this.share === 0) return this.shown
    const first = Math.max(1, Math.ceil(from / this.grid))
    for (let n = first; n * this.grid <= to && n < first + 60; n++) this.shown.push(n * this.grid)
    return this.shown
  }

  wins(price: number): number {
    const ln = Math.log(price)
    let sum = this.always
    for (let n = 0; n < this.weights.length; n++)
      sum += this.weights[n]! * normalBelow((ln - this.means[n]!) / this.spreads[n]!)
    if (this.share === 0) return sum
    // Whoever's price rounds to a multiple up to ours: all below the middle to the next one.
    const upTo = (Math.floor(price / this.grid + 1e-9) + 0.5) * this.grid
    return sum + this.share * normalBelow((Math.log(upTo) - this.mean) / this.spread)
  }
}

/** Where the price that is sent is paid. */
export const firstPrice = (offer: Pick<Offer, 'wins' | 'facts'>, price: number): number =>
  (offer.facts.inBa - price) * offer.wins(price)

/** The lowest price that would have won, infinite where none up to `most` does. */
export function minimumToWin(offer: Offer, u: number, most: number): number {
  if (offer.lowest !== undefined) return offer.lowest(u)
  if (u >= offer.wins(most)) return Number.POSITIVE_INFINITY
  let [low, high] = [Math.min(most, Math.max(offer.facts.floor, most * 1e-3)), most]
  if (u < offer.wins(low)) return low
  for (let n = 0; n < 24; n++) {
    const middle = Math.sqrt(low * high)
    if (u < offer.wins(middle)) high = middle
    else low = middle
  }
  return high
}

const slices = 12

/** Where the competitor's price is paid, or the floor: what lies between is saved, the integral of W from floor to price. */
export function secondPrice(offer: Pick<Offer, 'wins' | 'facts'>, price: number): number {
  const { floor } = offer.facts
  const from = Math.min(price, floor)
  const width = (price - from) / slices
  let saved = 0
  for (let n = 0; n < slices; n++) saved += width * offer.wins(from + (n + 0.5) * width)
  return firstPrice(offer, price) + saved
}
