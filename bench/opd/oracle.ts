/** The oracle knows the true win curve of each bid: what it would have earned. */
import { firstBidAt, type MarketOf, type Offer } from './market.ts'

/** Steps of the grid over [lowest, in], beside the jumps of the curve. */
const steps = 48

/** The margins of one bid at the prices of a grid over [floor, in]. */
export class Oracle {
  readonly chances = new Float64Array(512)
  readonly margins = new Float64Array(512)
  count = 0

  loadOffer(offer: Offer): void {
    const { inBa, floor } = offer.facts
    const lowest = Math.min(inBa, Math.max(floor, inBa * 0.02))
    this.count = 0
    const ratio = (inBa / lowest) ** (1 / steps)
    for (let n = 0, price = lowest; n < steps && lowest < inBa; n++, price *= ratio)
      this.look(offer, price)
    for (const price of offer.jumps())
      if (price >= lowest && price < inBa && this.count < 511) this.look(offer, price)
    this.look(offer, inBa)
  }

  private look(offer: Offer, price: number): void {
    this.chances[this.count] = offer.wins(price)
    this.margins[this.count++] = offer.margin(price)
  }

  /** At the price p that maximises margin(p) + worthOfAWin W(p). */
  best(worthOfAWin: number): { wins: number; margin: number } {
    const { margins, chances, count } = this
    const best = bestOf(margins, chances, count, worthOfAWin)
    return { wins: chances[best]!, margin: margins[best]! }
  }
}

function bestOf(margins: Float64Array, chances: Float64Array, count: number, worth: number) {
  let best = 0
  let most = Number.NEGATIVE_INFINITY
  for (let n = 0; n < count; n++) {
    const value = margins[n]! + worth * chances[n]!
    if (value > most) {
      most = value
      best = n
    }
  }
  return best
}

/** The oracle maximises margin(p) + ((theta - 1) in + lambda) W(p). */
export interface OracleReward {
  theta: number
  lambda: number
}

interface Row {
  inBa: number
  /** The supplier, and the half of the run. */
  market: string
  margins: Float64Array
  chances: Float64Array
}

function sampled(marketOf: MarketOf, seed: number, bids: number): Row[] {
  const market = marketOf(seed)
  const oracle = new Oracle()
  const every = Math.max(1, Math.floor(bids / 6000))
  const rows: Row[] = []
  for (let n = 0, now = firstBidAt; n < bids; n++, now += market.every) {
    const offer = market.offer(n, now)
    if (n % every !== 0) continue
    oracle.loadOffer(offer)
    const { margins, chances, count } = oracle
    rows.push({
      inBa: offer.facts.inBa,
      market: `${offer.facts.supplier} ${n < bids / 2}`,
      margins: margins.slice(0, count),
      chances: chances.slice(0, count),
    })
  }
  return rows
}

function sums(rows: readonly Row[], theta: number, lambda: number) {
  const all = { dual: 0, wins: 0, spend: 0, margin: 0 }
  for (const { inBa, margins, chances } of rows) {
    const reward = (theta - 1) * inBa + lambda
    const best = bestOf(margins, chances, margins.length, reward)
    all.dual += margins[best]! + reward * chances[best]!
    all.wins += chances[best]!
    all.spend += inBa * chances[best]!
    all.margin += margins[best]!
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
 * The dual problem is convex: its minimum over theta is searched with the best lambda for each theta.
 */
export function constrained(
  marketOf: MarketOf,
  seed: number,
  bids: number,
  keep: { wins: number; spend: number },
): OracleReward {
  const rows = sampled(marketOf, seed, bids)
  const base = sums(rows, 1e9, 0)
  const lambdaOf = (theta: number) =>
    least(0, 50, (lambda) => sums(rows, theta, lambda).wins >= keep.wins * base.wins)
  const dual = (theta: number) => {
    const lambda = lambdaOf(theta)
    const bound = sums(rows, theta, lambda).dual
    return bound - (theta - 1) * keep.spend * base.spend - lambda * keep.wins * base.wins
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
export const balanced = (
  marketOf: MarketOf,
  seed: number,
  bids: number,
  target: number,
): OracleReward => balancedOn(sampled(marketOf, seed, bids), target)

function balancedOn(rows: readonly Row[], target: number): OracleReward {
  const theta = 1 - target
  const share = (lambda: number) => {
    const { margin, spend } = sums(rows, theta, lambda)
    return margin / spend
  }
  return { theta, lambda: least(0, 1e4, (lambda) => share(lambda) <= target) }
}

/** The wins of an oracle that has the margin share at each supplier in each half of the run, over those of `balanced`. */
export function balancedEach(
  marketOf: MarketOf,
  seed: number,
  bids: number,
  target: number,
): number {
  const rows = sampled(marketOf, seed, bids)
  const winsOf = (some: readonly Row[]) => {
    const { theta, lambda } = balancedOn(some, target)
    return sums(some, theta, lambda).wins
  }
  const parts = Map.groupBy(rows, (row) => row.market)
  return [...parts.values()].reduce((sum, part) => sum + winsOf(part), 0) / winsOf(rows)
}

/** The constant factor of the largest margin, and that margin's share of the oracle's. */
export function bestConstant(marketOf: MarketOf, seed: number, bids: number) {
  const market = marketOf(seed)
  const oracle = new Oracle()
  const factors = Array.from({ length: 40 }, (_each, n) => 0.3 + (0.7 * n) / 39)
  const margins = new Float64Array(factors.length)
  let best = 0
  for (let n = 0, now = firstBidAt; n < bids; n++, now += market.every) {
    const offer = market.offer(n, now)
    if (n % 4 !== 0) continue
    const { inBa, floor } = offer.facts
    oracle.loadOffer(offer)
    best += oracle.best(0).margin
    for (let index = 0; index < factors.length; index++) {
      const price = Math.max(Math.min(floor, inBa), inBa * factors[index]!)
      margins[index]! += offer.margin(price)
    }
  }
  const bestIndex = margins.indexOf(Math.max(...margins))
  return { factor: factors[bestIndex]!, share: margins[bestIndex]! / best }
}
