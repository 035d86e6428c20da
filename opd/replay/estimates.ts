/**
 * The estimates of a replay, for one integration or for all: as logged, as the model expects at the evaluated prices, and from
 * explored bids by inverse propensities (IPS, self-normalized) and doubly robust.
 */
import type { DecisionLine } from './line.ts'
import { isRandomized, type Match } from './match.ts'

export interface Estimate {
  value: number
  /** 95 %, by the normal approximation of a ratio (delta method). */
  low: number
  high: number
}

const z95 = 1.959964

/** A ratio of two sums with its confidence interval, from five moments. Bids can be added and subtracted again. */
export class Ratio {
  private u = 0
  private v = 0
  private uu = 0
  private uv = 0
  private vv = 0

  /** `sign` -1 subtracts what was added. */
  addPair(u: number, v: number, sign: 1 | -1): void {
    this.u += sign * u
    this.v += sign * v
    this.uu += sign * u * u
    this.uv += sign * u * v
    this.vv += sign * v * v
  }

  get value(): number {
    return this.v === 0 ? Number.NaN : this.u / this.v
  }

  /** Variance of the ratio. */
  get variance(): number {
    const { u, v, uu, uv, vv } = this
    if (v === 0) return Number.NaN
    const ratio = u / v
    return Math.max(0, uu - 2 * ratio * uv + ratio * ratio * vv) / (v * v)
  }

  /** Effective sample size (Kish), if `v` are weights. */
  get effective(): number {
    return this.vv <= 0 ? 0 : (this.v * this.v) / this.vv
  }

  estimate(): Estimate | null {
    return interval(this.value, Math.sqrt(this.variance))
  }

  /** This ratio divided by the ratio of other bids. Relative variances add. */
  over(other: Ratio): Estimate | null {
    const value = this.value / other.value
    const relative = this.variance / this.value ** 2 + other.variance / other.value ** 2
    return interval(value, Math.abs(value) * Math.sqrt(relative))
  }
}

/** null: not a finite number. */
function interval(value: number, deviation: number): Estimate | null {
  if (!Number.isFinite(value) || !Number.isFinite(deviation)) return null
  return { value, low: value - z95 * deviation, high: value + z95 * deviation }
}

/** One logged decision with its evaluated price. */
export interface Row {
  arm: DecisionLine['arm']
  in: number
  /** The logged price. */
  out: number
  /** The evaluated price. */
  priced: number
  /** Win probability at `in`, at the evaluated price and at the logged price, by the model. */
  winIn: number
  winPriced: number
  winLogged: number
  match: Match
  /** Expected cleared price of a win at the evaluated price. */
  clears: number
  /** Second-price auction: the cleared price does not depend on the bid. */
  second: boolean
}

/** Sums by the names that their figures have in the report. */
const ratios = <Name extends string>(...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, new Ratio()])) as Record<Name, Ratio>

export class ReplaySums {
  bids = 0
  wins = 0
  unsupported = 0
  /** Bids of randomized arms. */
  slice = 0
  explored = 0
  holdouts = 0
  inSum = 0
  logged = ratios('win_rate', 'mean_factor', 'margin_per_bid', 'margin_share')
  /** As logged: wins and spend of treated bids and of the holdout. */
  treated = ratios('wins', 'spend')
  heldOut = ratios('wins', 'spend')
  model = ratios(
    'win_rate',
    'mean_factor',
    'margin_per_bid',
    'margin_share',
    'kept_wins',
    'kept_spend',
  )
  /** Weighted wins, spend and margin of matching bids; wins and spend of the holdout. */
  ips = ratios('wins', 'spend', 'margin', 'share', 'baseWins', 'baseSpend')
  robust = ratios('win_rate', 'margin_per_bid', 'margin_share', 'kept_wins', 'kept_spend')

  /** `cleared` is null if the bid is not won so far. `sign` -1 subtracts a row. */
  addRow(row: Row, cleared: number | null, sign: 1 | -1): void {
    const won = cleared === null ? 0 : 1
    const margin = cleared === null ? 0 : row.in - cleared
    this.bids += sign
    this.wins += sign * won
    this.inSum += sign * row.in
    if (row.match.unsupported) this.unsupported += sign
    const { logged } = this
    logged.win_rate.addPair(won, 1, sign)
    logged.mean_factor.addPair(Math.min(1, row.out / row.in), 1, sign)
    logged.margin_per_bid.addPair(margin, 1, sign)
    logged.margin_share.addPair(margin, won * row.in, sign)
    this.addModel(row, sign)
    if (!isRandomized(row.arm)) return
    this.slice += sign
    if (row.arm === 'explored') this.explored += sign
    if (row.arm === 'holdout') this.holdouts += sign
    const side = row.arm === 'holdout' ? this.heldOut : this.treated
    side.wins.addPair(won, 1, sign)
    side.spend.addPair(won * row.in, row.in, sign)
    const gain = cleared === null ? 0 : row.in - clearedAt(row, cleared)
    this.addIps(row, won, gain, sign)
    this.addRobust(row, won, gain, sign)
  }

  private addModel(row: Row, sign: 1 | -1): void {
    const { in: inBa, priced, winIn, winPriced } = row
    const { model } = this
    const expected = winPriced * (inBa - row.clears)
    model.win_rate.addPair(winPriced, 1, sign)
    model.mean_factor.addPair(priced / inBa, 1, sign)
    model.margin_per_bid.addPair(expected, 1, sign)
    model.margin_share.addPair(expected, winPriced * inBa, sign)
    model.kept_wins.addPair(winPriced, winIn, sign)
    model.kept_spend.addPair(winPriced * inBa, winIn * inBa, sign)
  }

  private addIps(row: Row, won: number, gain: number, sign: 1 | -1): void {
    const { wins, spend, margin, share, baseWins, baseSpend } = this.ips
    const { evaluated: w, holdout: h } = row.match
    const { in: inBa } = row
    if (w > 0) {
      wins.addPair(w * won, w, sign)
      spend.addPair(w * inBa * won, w * inBa, sign)
      margin.addPair(w * gain, w * inBa, sign)
      share.addPair(w * gain, w * inBa * won, sign)
    }
    if (h > 0) {
      baseWins.addPair(h * won, h, sign)
      baseSpend.addPair(h * inBa * won, h * inBa, sign)
    }
  }

  private addRobust(row: Row, won: number, gain: number, sign: 1 | -1): void {
    const { robust } = this
    const { in: inBa, winIn, winPriced, winLogged } = row
    const { evaluated: w, holdout: h } = row.match
    const expected = inBa - row.clears
    const wins = winPriced + w * (won - winLogged)
    const gained = winPriced * expected + w * (gain - winLogged * expected)
    const base = winIn + h * (won - winIn)
    robust.win_rate.addPair(wins, 1, sign)
    robust.margin_per_bid.addPair(gained, 1, sign)
    robust.margin_share.addPair(gained, inBa * wins, sign)
    robust.kept_wins.addPair(wins, base, sign)
    robust.kept_spend.addPair(inBa * wins, inBa * base, sign)
  }
}

/** The cleared price at the evaluated price, of a bid that was won at a price within reach. */
function clearedAt({ out, priced, second }: Row, cleared: number): number {
  if (second) return Math.min(cleared, priced)
  return out > 0 ? priced * Math.min(1, cleared / out) : priced
}
