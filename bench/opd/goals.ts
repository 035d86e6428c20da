/** The table of what is measured: a goal's number, or none where there is no goal and the figure is shown all the same. */
import { Logistic, Thompson } from './baselines.ts'
import type { Bidder } from './drive.ts'
import { keptMarkets } from './markets/kept.ts'
import { reacting } from './markets/reacting.ts'
import { replay } from './markets/replay.ts'
import { synthetic } from './markets/synthetic.ts'
import {
  fallen,
  lost,
  type Measured,
  marginMode,
  movingDelay,
  pure,
  pureMargin,
  restored,
  shifted,
  underConstraints,
} from './measure.ts'
import { bestConstant } from './oracle.ts'

export * from './measure.ts'

type MarketOf = Parameters<typeof pureMargin>[0]

export interface Goal {
  name: string
  /** The number of the goal; empty: none. */
  of: string
  market: string
  bids: number
  seeds: number
  /** Met when the mean is at least (at most) this; neither: shown only. */
  atLeast?: number
  atMost?: number
  /** Other figures of `notes` that must hold on the mean. */
  also?: Record<string, { atLeast?: number; atMost?: number }>
  measure: (seed: number, bids: number) => Measured
}

const keeps = { wins: { atLeast: 0.97 }, spend: { atLeast: 0.97 }, worst: { atLeast: 0.965 } }
const balances = {
  share: { atLeast: 0.147, atMost: 0.153 },
  shareAll: { atLeast: 0.147, atMost: 0.153 },
}
const fast = { every: () => 10 }

const pureGoals: Goal[] = [
  {
    name: 'pure margin, last half',
    of: '1',
    market: 'synthetic',
    bids: 150_000,
    seeds: 4,
    atLeast: 0.97,
    measure: (seed, bids) => pureMargin(synthetic, seed, bids, 0.5),
  },
  {
    name: 'pure margin, last tenth',
    of: '1',
    market: 'synthetic',
    bids: 1_000_000,
    seeds: 1,
    atLeast: 0.98,
    measure: (seed, bids) => pureMargin(synthetic, seed, bids, 0.9),
  },
  {
    name: 'pure margin, last half',
    of: '2',
    market: 'replay',
    bids: 100_000,
    seeds: 4,
    atLeast: 0.9,
    measure: (seed, bids) => pureMargin(replay, seed, bids, 0.5),
  },
]

const constrainedGoals: Goal[] = [
  ...keptMarkets.map(({ market, of, atLeast }) => ({
    name: 'margin with 97 % of wins and spend kept, last half',
    of: '3',
    market,
    bids: 150_000,
    seeds: 3,
    atLeast,
    also: keeps,
    measure: (seed: number, bids: number) => underConstraints(of, seed, bids),
  })),
  ...keptMarkets
    .filter(({ atLeast }) => atLeast === 0.6)
    .map(({ market, of }) => ({
      name: 'the same, notices say the lowest winning price',
      of: '3b',
      market,
      bids: 150_000,
      seeds: 3,
      atLeast: 0.8,
      also: keeps,
      measure: (seed: number, bids: number) =>
        underConstraints(of, seed, bids, { minimumToWin: true }),
    })),
  {
    name: "margin mode 15 %, share of the oracle's wins",
    of: '4',
    market: 'synthetic',
    bids: 150_000,
    seeds: 3,
    atLeast: 0.995,
    also: balances,
    measure: (seed, bids) => marginMode(synthetic, seed, bids),
  },
  {
    name: "margin mode 15 %, share of the oracle's wins",
    of: '4',
    market: 'replay',
    bids: 100_000,
    seeds: 3,
    atLeast: 0.995,
    also: balances,
    measure: (seed, bids) => marginMode(replay, seed, bids),
  },
]

const changing: Goal[] = [
  ...[0.7, -0.7].map((by) => ({
    name: `half of the publishers shift by ${`${by}`.replace('0.', '.')}: 4k bids after, of what it was`,
    of: '5',
    market: 'synthetic',
    bids: 100_000,
    seeds: 3,
    atLeast: 0.98,
    measure: (seed: number, bids: number) => shifted(seed, bids, by),
  })),
  {
    name: '8 nodes, 5 s exchange, one killed: points lost',
    of: '6',
    market: 'synthetic',
    bids: 100_000,
    seeds: 3,
    atMost: 0.5,
    measure: (seed, bids) => lost(seed, bids, { nodes: 8, killAt: bids * 0.6 }, synthetic, fast),
  },
  {
    name: '30 % of notices lost: points lost',
    of: '7',
    market: 'synthetic',
    bids: 120_000,
    seeds: 3,
    atMost: 1,
    measure: (seed, bids) => lost(seed, bids, { lost: 0.3 }),
  },
  {
    name: '2,000 bids/s, window of 30 min: points lost',
    of: '8',
    market: 'synthetic',
    bids: 250_000,
    seeds: 1,
    atMost: 1,
    measure: (seed, bids) => lost(seed, bids, { every: () => 0.5 }),
  },
  {
    name: 'delays that move from 8 s to 20 min: points lost',
    of: '8',
    market: 'synthetic',
    bids: 150_000,
    seeds: 3,
    atMost: 1,
    measure: (seed, bids) => lost(seed, bids, { delay: movingDelay(bids, 576) }),
  },
  {
    name: 'a ramp of 3x: points lost',
    of: '8',
    market: 'synthetic',
    bids: 150_000,
    seeds: 2,
    atMost: 1,
    measure: (seed, bids) => lost(seed, bids, { every: (n) => (n < bids / 2 ? 300 : 100) }),
  },
  {
    name: "a 20 % fall of the win rate: % of a day's wins lost before the guards act",
    of: '9',
    market: 'synthetic',
    bids: 150_000,
    seeds: 3,
    atMost: 2,
    measure: fallen,
  },
  {
    name: 'share of decisions that a restored snapshot makes alike',
    of: '9b',
    market: 'synthetic',
    bids: 20_000,
    seeds: 3,
    atLeast: 1,
    measure: restored,
  },
]

const shown: Goal[] = [
  {
    name: 'second price in half of the auctions, pure margin',
    of: '',
    market: 'second price',
    bids: 100_000,
    seeds: 2,
    measure: (seed, bids) => pureMargin((of) => synthetic(of, { second: 0.5 }), seed, bids, 0.5),
  },
  {
    name: 'floors that follow, rivals that hold their win rate, pure margin',
    of: '',
    market: 'reacting',
    bids: 100_000,
    seeds: 2,
    measure: (seed, bids) => pureMargin(reacting, seed, bids, 0.5),
  },
  {
    name: 'new publishers every hour, pure margin',
    of: '',
    market: 'cold start',
    bids: 100_000,
    seeds: 2,
    measure: (seed, bids) =>
      pureMargin((of) => synthetic(of, { freshEvery: 3_600_000 }), seed, bids, 0.5),
  },
]

const against = (create: () => Bidder) => (of: MarketOf, seed: number, bids: number) =>
  pureMargin(of, seed, bids, 0.5, { create, policy: pure })

const rivals: Record<string, (of: MarketOf, seed: number, bids: number) => Measured> = {
  'best constant factor': (of, seed, bids) => {
    const { share, factor } = bestConstant(of, seed, bids)
    return { value: share, notes: { factor }, rows: [] }
  },
  'Thompson sampling by publisher': against(() => new Thompson()),
  'online logistic + argmax': against(() => new Logistic()),
}
const baselines: Goal[] = [
  { market: 'synthetic', of: synthetic, bids: 150_000 },
  { market: 'replay', of: replay, bids: 100_000 },
].flatMap(({ market, of, bids }) =>
  Object.entries(rivals).map(([name, measure]) => ({
    name: `baseline: ${name}`,
    of: '',
    market,
    bids,
    seeds: 2,
    measure: (seed, n) => measure(of, seed, n),
  })),
)

export const goals: readonly Goal[] = [
  ...pureGoals,
  ...constrainedGoals,
  ...changing,
  ...shown,
  ...baselines,
]
