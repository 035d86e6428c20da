/** The table of what is measured: a goal's number, or none where there is no goal and the figure is shown all the same. */
import { Logistic, Thompson } from './baselines.ts'
import type { Bidder } from './drive.ts'
import type { MarketOf } from './market.ts'
import { reacting } from './markets/reacting.ts'
import { replay } from './markets/replay.ts'
import { readRows, recorded } from './markets/rows.ts'
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

export interface Goal {
  /** The number of the goal; empty: none. */
  number: string
  name: string
  market: string
  bids: number
  seeds: number
  measure: (seed: number, bids: number) => Measured
  /** Met when the mean is at least (at most) this; neither: shown only. */
  atLeast?: number
  atMost?: number
  /** Other figures of `notes` that must hold on the mean. */
  also?: Record<string, { atLeast?: number; atMost?: number }>
}

/** 150,000 bids of three seeds on the synthetic market, where `more` says nothing else. */
const goal = (
  number: string,
  name: string,
  measure: Goal['measure'],
  more: Partial<Goal>,
): Goal => ({
  ...{ number, name, market: 'synthetic', bids: 150_000, seeds: 3, measure },
  ...more,
})

const lastHalf =
  (market: MarketOf): Goal['measure'] =>
  (seed, bids) =>
    pureMargin(market, seed, bids, 0.5)

const pureGoals: Goal[] = [
  goal('1', 'pure margin, last half', lastHalf(synthetic), { seeds: 4, atLeast: 0.97 }),
  goal('1b', 'pure margin, last tenth', (seed, bids) => pureMargin(synthetic, seed, bids, 0.9), {
    bids: 1_000_000,
    seeds: 1,
    atLeast: 0.98,
  }),
  goal('2', 'pure margin, last half', lastHalf(replay), {
    ...{ market: 'replay', bids: 100_000, seeds: 4, atLeast: 0.9 },
  }),
]

const dataAt = process.argv.indexOf('--data')
const recordings = dataAt < 0 ? [] : [...readRows(process.argv[dataAt + 1]!)]
/** The markets on which kept wins and spend are measured. */
const keptMarkets: { market: string; marketOf: MarketOf; atLeast: number }[] = [
  { market: 'synthetic', marketOf: synthetic, atLeast: 0.7 },
  { market: 'replay', marketOf: replay, atLeast: 0.6 },
  ...recordings.map(([advertiser, rows]) => ({
    market: `recorded ${advertiser}`,
    marketOf: (seed: number) => recorded(rows, seed),
    atLeast: 0.6,
  })),
]

/** Notices of wins and losses say the lowest winning price, and none is lost. */
const everyNotice = { minimumToWin: true, lost: 0 }
const keeps = { wins: { atLeast: 0.97 }, spend: { atLeast: 0.97 }, worst: { atLeast: 0.965 } }
const share = { atLeast: 0.147, atMost: 0.153 }
const balances = { atLeast: 0.995, also: { share, shareAll: share } }
const balanced = "margin mode 15 %, share of the oracle's wins"

const constrainedGoals: Goal[] = [
  ...keptMarkets.map(({ market, marketOf, atLeast }) =>
    goal(
      '3',
      'margin with 97 % of wins and spend kept, last half',
      (seed, bids) => underConstraints(marketOf, seed, bids),
      { market, atLeast, also: keeps },
    ),
  ),
  ...keptMarkets
    .filter(({ atLeast }) => atLeast === 0.6)
    .map(({ market, marketOf }) =>
      goal(
        '3b',
        'the same, notices say the lowest winning price',
        (seed, bids) => underConstraints(marketOf, seed, bids, { minimumToWin: true }),
        { market, atLeast: 0.8, also: keeps },
      ),
    ),
  ...keptMarkets.map(({ market, marketOf }) =>
    goal(
      '3c',
      'the same, each notice arrives and multipliers see the true loss of each price',
      (seed, bids) => underConstraints(marketOf, seed, bids, everyNotice, 'true loss'),
      { market, bids: 30_000, seeds: 8, atLeast: market === 'synthetic' ? 0.75 : 0.8 },
    ),
  ),
  goal('4', balanced, (seed, bids) => marginMode(synthetic, seed, bids), balances),
  goal('4', balanced, (seed, bids) => marginMode(replay, seed, bids), {
    ...{ market: 'replay', bids: 100_000, ...balances },
  }),
]

const fast = { every: () => 10 }

const changing: Goal[] = [
  ...[0.7, -0.7].map((by) =>
    goal(
      '5',
      `half of the publishers shift by ${`${by}`.replace('0.', '.')}: 4k bids after, of what it was`,
      (seed, bids) => shifted(seed, bids, by),
      { bids: 100_000, atLeast: 0.98 },
    ),
  ),
  goal(
    '6',
    '8 nodes, 5 s exchange, one killed: points lost',
    (seed, bids) => lost(seed, bids, { nodes: 8, killAt: bids * 0.6 }, fast),
    { bids: 100_000, atMost: 0.5 },
  ),
  goal('7', '30 % of notices lost: points lost', (seed, bids) => lost(seed, bids, { lost: 0.3 }), {
    bids: 120_000,
    atMost: 1,
  }),
  goal(
    '8',
    '2,000 bids/s, window of 30 min: points lost',
    (seed, bids) => lost(seed, bids, { every: () => 0.5 }),
    { bids: 250_000, seeds: 1, atMost: 1 },
  ),
  goal(
    '8',
    'delays that move from 8 s to 20 min: points lost',
    (seed, bids) => lost(seed, bids, { delay: movingDelay(bids, 576) }),
    { atMost: 1 },
  ),
  goal(
    '8',
    'a ramp of 3x: points lost',
    (seed, bids) => lost(seed, bids, { every: (n) => (n < bids / 2 ? 300 : 100) }),
    { seeds: 2, atMost: 1 },
  ),
  goal('9', "a 20 % fall of the win rate: % of a day's wins lost before the guards act", fallen, {
    atMost: 2,
  }),
  goal('9b', 'share of decisions that a restored snapshot makes alike', restored, {
    ...{ bids: 20_000, atLeast: 1 },
  }),
]

const shown: Goal[] = [
  {
    ...{ market: 'second price', name: 'second price in half of the auctions, pure margin' },
    measure: lastHalf((seed) => synthetic(seed, { second: 0.5 })),
  },
  {
    market: 'reacting',
    name: 'floors that follow, rivals that hold their win rate, pure margin',
    measure: lastHalf(reacting),
  },
  {
    ...{ market: 'cold start', name: 'new publishers every hour, pure margin' },
    measure: lastHalf((seed) => synthetic(seed, { freshEvery: 3_600_000 })),
  },
].map((goal) => ({ ...goal, number: '', bids: 100_000, seeds: 2 }))

const against = (create: () => Bidder) => (marketOf: MarketOf, seed: number, bids: number) =>
  pureMargin(marketOf, seed, bids, 0.5, { create, policy: pure })

const rivals: Record<string, (marketOf: MarketOf, seed: number, bids: number) => Measured> = {
  'best constant factor': (marketOf, seed, bids) => {
    const { share, factor } = bestConstant(marketOf, seed, bids)
    return { value: share, notes: { factor }, rows: [] }
  },
  'Thompson sampling by publisher': against(() => new Thompson()),
  'online logistic + argmax': against(() => new Logistic()),
}
const baselines: Goal[] = [
  { market: 'synthetic', marketOf: synthetic, bids: 150_000 },
  { market: 'replay', marketOf: replay, bids: 100_000 },
].flatMap(({ market, marketOf, bids }) =>
  Object.entries(rivals).map(([name, measure]) =>
    goal('', `baseline: ${name}`, (seed, n) => measure(marketOf, seed, n), {
      market,
      bids,
      seeds: 2,
    }),
  ),
)

export const goals: readonly Goal[] = [
  ...pureGoals,
  ...constrainedGoals,
  ...changing,
  ...shown,
  ...baselines,
]
