/** What could have been earned by one who knows each bid's true win curve. */
import type { MarketOf, Offer } from './market.ts'

/** Steps of the grid over [lowest, in]; the curve's jumps come on top. */
const steps = 48

/** The price that maximises margin(p) + ((theta - 1) in + lambda) W(p) over [lowest, in]. */
interface Best {
  price: number
  wins: number
  margin: number
}

/** `lowest` is the larger of the floor and what `minFactor` allows. */
export class Oracle {
  readonly prices = new Float64Array(512)
  readonly chances = new Float64Array(512)
  readonly margins = new Float64Array(512)
  count = 0
  private readonly found: Best = { price: 0, wins: 0, margin: 0 }

  load(offer: Offer, minFactor: number): void {
    const { inBa, floor } = offer.facts
    const lowest = Math.min(inBa, Math.max(floor, inBa * minFactor, inBa * 0.02))
    this.count = 0
    const ratio = (inBa / lowest) ** (1 / steps)
    for (let n = 0, price = lowest; n < steps && lowest < inBa; n++, price *= ratio)
      this.look(offer, price)
    for (const price of offer.jumps())
      if (price >= lowest && price < inBa && this.count < 511) this.look(offer, price)
    this.look(offer, inBa)
  }

  private look(offer: Offer, price: number): void {
    this.prices[this.count] = price
    this.chances[this.count] = offer.wins(price)
    this.margins[this.count++] = offer.margin(price)
  }

  /** The object is reused. */
  best(worthOfAWin: number): Best {
    let at = 0
    let most = Number.NEGATIVE_INFINITY
    for (let n = 0; n < this.count; n++) {
      const worth = this.margins[n]! + worthOfAWin * this.chances[n]!
      if (worth > most) {
        most = worth
        at = n
      }
    }
    this.found.price = this.prices[at]!
    this.found.wins = this.chances[at]!
    this.found.margin = this.margins[at]!
    return this.found
  }
}

export interface Multipliers {
  theta: number
  lambda: number
}

interface Row {
  inBa: number
  margins: Float64Array
  chances: Float64Array
}

function sampled(of: MarketOf, seed: number, bids: number, minFactor: number): Row[] {
  const market = of(seed)
  const oracle = new Oracle()
  const every = Math.max(1, Math.floor(bids / 6000))
  const rows: Row[] = []
  for (let n = 0, now = 0; n < bids; n++, now += market.every) {
    const offer = market.offer(n, now)
    if (n % every !== 0) continue
    oracle.load(offer, minFactor)
    const { margins, chances, count } = oracle
    rows.push({
      inBa: offer.facts.inBa,
      margins: margins.slice(0, count),
      chances: chances.slice(0, count),
    })
  }
  return rows
}

interface Sums {
  dual: number
  wins: number
  spend: number
  margin: number
}

function sums(rows: readonly Row[], theta: number, lambda: number): Sums {
  const all: Sums = { dual: 0, wins: 0, spend: 0, margin: 0 }
  for (const { inBa, margins, chances } of rows) {
    const reward = (theta - 1) * inBa + lambda
    let at = 0
    let most = Number.NEGATIVE_INFINITY
    for (let n = 0; n < margins.length; n++) {
      const worth = margins[n]! + reward * chances[n]!
      if (worth > most) {
        most = worth
        at = n
      }
    }
    all.dual += most
    all.wins += chances[at]!
    all.spend += inBa * chances[at]!
    all.margin += margins[at]!
  }
  return all
}

/** The lowest x in [low, high] where `enough(x)`, by bisection; `enough` must be monotone. */
function least(low: number, high: number, enough: (x: number) => boolean): number {
  if (enough(low)) return low
  for (let n = 0; n < 30; n++) {
    const middle = (low + high) / 2
    if (enough(middle)) high = middle
    else low = middle
  }
  return high
}

/**
 * Multipliers of the largest margin that keeps shares of wins and of spend: the Lagrangian frontier, on a sample.
 * The dual is convex; its minimum over theta is looked for with the best lambda inside.
 */
export function constrained(
  of: MarketOf,
  seed: number,
  bids: number,
  keep: { wins: number; spend: number },
  minFactor = 0,
): Multipliers {
  const rows = sampled(of, seed, bids, minFactor)
  const base = sums(rows, 1e9, 0)
  const lambdaOf = (theta: number) =>
    least(0, 50, (lambda) => sums(rows, theta, lambda).wins >= keep.wins * base.wins)
  const dual = (theta: number) => {
    const lambda = lambdaOf(theta)
    const at = sums(rows, theta, lambda).dual
    return at - (theta - 1) * keep.spend * base.spend - lambda * keep.wins * base.wins
  }
  let [low, high] = [
    1,
    1 + least(0, 50, (x) => sums(rows, 1 + x, 0).spend >= keep.spend * base.spend),
  ]
  for (let n = 0; n < 14; n++) {
    const [one, other] = [low + (high - low) * 0.4, low + (high - low) * 0.6]
    if (dual(one) < dual(other)) high = other
    else low = one
  }
  const theta = (low + high) / 2
  return { theta, lambda: lambdaOf(theta) }
}

/** Multipliers of the most wins at a margin share: W (lambda + (1 - target) in - p). */
export function balanced(
  of: MarketOf,
  seed: number,
  bids: number,
  target: number,
  minFactor = 0,
): Multipliers {
  const rows = sampled(of, seed, bids, minFactor)
  const theta = 1 - target
  const share = (lambda: number) => {
    const { margin, spend } = sums(rows, theta, lambda)
    return margin / spend
  }
  return { theta, lambda: least(0, 1e4, (lambda) => share(lambda) <= target) }
}

/** The constant factor of the largest margin, and that margin's share of the oracle's. */
export function bestConstant(
  of: MarketOf,
  seed: number,
  bids: number,
  reward = { theta: 1, lambda: 0 },
) {
  const market = of(seed)
  const oracle = new Oracle()
  const factors = Array.from({ length: 40 }, (_each, n) => 0.3 + (0.7 * n) / 39)
  const margins = new Float64Array(factors.length)
  let best = 0
  for (let n = 0, now = 0; n < bids; n++, now += market.every) {
    const offer = market.offer(n, now)
    if (n % 4 !== 0) continue
    const { inBa, floor } = offer.facts
    oracle.load(offer, 0)
    best += oracle.best((reward.theta - 1) * inBa + reward.lambda).margin
    for (let at = 0; at < factors.length; at++) {
      const price = Math.max(Math.min(floor, inBa), inBa * factors[at]!)
      margins[at]! += offer.margin(price)
    }
  }
  const at = margins.indexOf(Math.max(...margins))
  return { factor: factors[at]!, share: margins[at]! / best }
}
