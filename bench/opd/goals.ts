/** What is measured: one entry a goal (or a part of one), each a function of a seed. */
import { createLearner, type Policy } from '../../opd/learner.ts'
import { between, type Driven, type DriveOptions, drive, type Row } from './drive.ts'
import type { MarketOf } from './market.ts'
import { replay } from './markets/replay.ts'
import { synthetic } from './markets/synthetic.ts'
import { balanced, constrained, type Multipliers } from './oracle.ts'

export interface Measured {
  /** What is compared with the goal. */
  value: number
  /** Other figures worth a look. */
  notes: Record<string, number>
  rows: Row[]
}

export interface Goal {
  name: string
  /** The number of the goal. */
  of: number
  market: string
  bids: number
  seeds: number
  /** Met when the mean is at least (at most) this. */
  atLeast?: number
  atMost?: number
  measure: (seed: number, bids: number) => Measured
}

export const pure: Policy = { minWinRate: 0, minSpend: 0, holdout: 0, explore: 0.005, minFactor: 0 }
export const kept: Policy = {
  minWinRate: 0.97,
  minSpend: 0.97,
  holdout: 0.02,
  explore: 0.005,
  minFactor: 0,
}
export const margin15: Policy = { targetMargin: 0.15, holdout: 0.02, explore: 0.005, minFactor: 0 }

export const engine = () => createLearner({ attributionWindow: 1_800_000 })

export function run(of: MarketOf, seed: number, options: Partial<DriveOptions> & { bids: number }) {
  return drive(of(seed), { seed, policy: pure, create: engine, ...options })
}

const ratio = (row: Row) => row.margin / row.best

export function pureMargin(of: MarketOf, seed: number, bids: number, from: number): Measured {
  const { rows } = run(of, seed, { bids })
  const half = between(rows, from)
  return {
    value: ratio(half),
    notes: { first: ratio(between(rows, 0, from)), wins: half.wins / half.winsBest },
    rows,
  }
}

/** The lowest kept win rate over windows of `size` bids after `skip`. */
export function worstWindow(rows: readonly Row[], size: number, skip: number): number {
  const rowBids = rows[0]!.bids
  const long = Math.max(1, Math.round(size / rowBids))
  let worst = Number.POSITIVE_INFINITY
  for (let at = Math.ceil(skip / rowBids); at + long <= rows.length; at++) {
    let [wins, base] = [0, 0]
    for (const row of rows.slice(at, at + long)) {
      wins += row.wins
      base += row.winsBase
    }
    worst = Math.min(worst, wins / base)
  }
  return worst
}

const multipliers = new Map<string, Multipliers>()
function once(name: string, make: () => Multipliers): Multipliers {
  const known = multipliers.get(name) ?? make()
  multipliers.set(name, known)
  return known
}

export function underConstraints(of: MarketOf, seed: number, bids: number): Measured {
  const keep = { wins: kept.minWinRate!, spend: kept.minSpend! }
  const reward = once(`kept ${of(seed).name} ${seed} ${bids}`, () =>
    constrained(of, seed, bids, keep),
  )
  const driven = run(of, seed, { bids, policy: kept, reward, rowBids: 1000 })
  const all = between(driven.rows, 0)
  const half = between(driven.rows, 0.5)
  return {
    value: ratio(all),
    notes: {
      half: ratio(half),
      wins: all.wins / all.winsBase,
      spend: all.spend / all.spendBase,
      worst: worstWindow(driven.rows, 50_000, 20_000),
      theta: reward.theta,
      lambda: reward.lambda,
    },
    rows: driven.rows,
  }
}

export function marginMode(of: MarketOf, seed: number, bids: number): Measured {
  const reward = once(`margin ${of(seed).name} ${seed} ${bids}`, () =>
    balanced(of, seed, bids, margin15.targetMargin!),
  )
  const { rows } = run(of, seed, { bids, policy: margin15, reward })
  const half = between(rows, 0.5)
  const all = between(rows, 0)
  return {
    value: half.wins / half.winsBest,
    notes: { share: half.margin / half.spend, shareAll: all.margin / all.spend },
    rows,
  }
}

export type { Driven }

export const goals: readonly Goal[] = [
  {
    name: 'pure margin, last half',
    of: 1,
    market: 'synthetic',
    bids: 150_000,
    seeds: 4,
    atLeast: 0.97,
    measure: (seed, bids) => pureMargin(synthetic, seed, bids, 0.5),
  },
  {
    name: 'pure margin, last half',
    of: 2,
    market: 'replay',
    bids: 100_000,
    seeds: 3,
    atLeast: 0.9,
    measure: (seed, bids) => pureMargin(replay, seed, bids, 0.5),
  },
  {
    name: 'margin with 97 % of wins and spend',
    of: 3,
    market: 'synthetic',
    bids: 150_000,
    seeds: 3,
    atLeast: 0.9,
    measure: (seed, bids) => underConstraints(synthetic, seed, bids),
  },
  {
    name: 'margin with 97 % of wins and spend',
    of: 3,
    market: 'replay',
    bids: 100_000,
    seeds: 3,
    atLeast: 0.6,
    measure: (seed, bids) => underConstraints(replay, seed, bids),
  },
  {
    name: "margin mode 15 %, share of the oracle's wins",
    of: 4,
    market: 'synthetic',
    bids: 150_000,
    seeds: 3,
    atLeast: 0.995,
    measure: (seed, bids) => marginMode(synthetic, seed, bids),
  },
  {
    name: "margin mode 15 %, share of the oracle's wins",
    of: 4,
    market: 'replay',
    bids: 100_000,
    seeds: 3,
    atLeast: 0.995,
    measure: (seed, bids) => marginMode(replay, seed, bids),
  },
]
