/** A market: a sequence of offers, each with its true win curve. */
import type { BidFacts } from '../../opd/learner.ts'

/** One bid. The market reuses the object, so copy what you keep. */
export interface Offer {
  readonly facts: BidFacts
  /** True probability to win at `price`. Never falls. */
  wins(price: number): number
  /** Expected margin at `price` on the true curve: the win probability times `in` less the cleared price. */
  margin(price: number): number
  /** The cleared price if `price` wins. `u`: the uniform number of the bid, which wins if `u < wins(price)`. */
  clears(price: number, u: number): number
  /** The lowest winning price by the uniform number of the bid; absent: it is found by bisection of `wins`. */
  lowest?(u: number): number
  /** Prices at which the curve jumps, which the oracle tries beside its grid. */
  jumps(): Iterable<number>
}

export interface Market {
  readonly name: string
  /** Virtual milliseconds between two bids. */
  readonly every: number
  /** The `n`-th offer, at virtual time `now`; called in order, once each. */
  offer(n: number, now: number): Offer
  /** Called with each price that was sent; markets that react implement it. */
  sees?(price: number, won: boolean, now: number): void
}

export type MarketOf = (seed: number) => Market

export const day = 86_400_000
/** Virtual time of the first bid of a run, for learners and oracles alike: competition depends on the hour. */
export const firstBidAt = 1_760_000_000_000
/** Milliseconds between two bids, usually. */
export const usualEvery = day / 150_000

/** The facts of a market's bids, to be filled. */
export const newFacts = (): BidFacts => ({ supplier: '', mode: 'revenue', inBa: 1, floor: 0 })

/** An offer of a first-price auction. */
export function firstPriceOffer(
  facts: BidFacts,
  wins: Offer['wins'],
  more: Partial<Offer> = {},
): Offer {
  const margin = (price: number) => firstPrice({ facts, wins }, price)
  return { facts, wins, margin, clears: (price) => price, jumps: () => [], ...more }
}

/** Standard normal distribution function; error under 2e-7 (Abramowitz and Stegun 7.1.26). */
function normalBelow(x: number): number {
  const z = Math.abs(x) * Math.SQRT1_2
  const t = 1 / (1 + 0.3275911 * z)
  const poly =
    t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
  const half = 0.5 * poly * Math.exp(-z * z)
  return x > 0 ? 1 - half : half
}

/** The highest bid of the competitors, a mixture: log-normal, log-normal and rounded, and a share without a competitor. */
export class Mixture {
  readonly weights: number[] = []
  readonly means: number[] = []
  readonly spreads: number[] = []
  /** Log-normal competitors that round to multiples of a grid. */
  private share = 0
  private mean = 0
  private spread = 1
  private grid = 1
  private readonly shown: number[] = []
  /** Share of bids without a competitor, which win at any price. */
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
    // Prices that round to a multiple up to this one: all below the middle between it and the next one.
    const upTo = (Math.floor(price / this.grid + 1e-9) + 0.5) * this.grid
    return sum + this.share * normalBelow((Math.log(upTo) - this.mean) / this.spread)
  }
}

/** The margin in a first-price auction. */
export const firstPrice = (offer: Pick<Offer, 'wins' | 'facts'>, price: number): number =>
  (offer.facts.inBa - price) * offer.wins(price)

/** The lowest winning price; infinite if no price up to `most` wins. */
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

/** The margin in a second-price auction: the competitor's price, or the floor, is paid. It adds the integral of W from floor to price. */
export function secondPrice(offer: Pick<Offer, 'wins' | 'facts'>, price: number): number {
  const { floor } = offer.facts
  const from = Math.min(price, floor)
  const width = (price - from) / slices
  let saved = 0
  for (let n = 0; n < slices; n++) saved += width * offer.wins(from + (n + 0.5) * width)
  return firstPrice(offer, price) + saved
}
