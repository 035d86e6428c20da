/** The margin at kept floors on markets that are drawn at random, beside the constrained oracle of each. */
import { createLearner } from '../../opd/learner.ts'
import type { Block, Table } from '../harness/report.ts'
import { mean, quantile, standardError } from '../harness/statistics.ts'
import { type Control, controlled } from './controlled.ts'
import { between, drive, sumOf } from './drive.ts'
import type { Market, Offer } from './market.ts'
import { drawnMarket, rarityOf } from './markets/drawn.ts'
import { constrained } from './oracle.ts'
import { source } from './random.ts'

/** Rows of 1,000 bids. A window has 10,000; the first 5,000 bids are in none. */
const [rowBids, windowRows, firstRow] = [1000, 10, 5]
/** A floor counts as broken if it is missed by more. */
const missed = 0.003
/** Less margin, as a share of spend, is not compared. */
const leastPossible = 0.002

export interface Found {
  /** What the oracle earns in the last half, as a share of the spend at the bids' own prices. */
  possible: number
  /** Share of the oracle's margin in the last half; null: there is hardly any. */
  margin: number | null
  /** Share of the permitted loss that was used, of the floor of which more was. */
  budget: number
  /** The least share kept over the floor, of the whole run and of any window. */
  all: number
  worst: number
  ownPrice: number
  /** What lowered bids lost of wins, over what was expected to be lost; null: no bid was lowered. */
  loss: number | null
}

/** `isRare`: win rates of .1 to 1 %. */
export function runDrawn(seed: number, bids: number, control: Control, isRare = false): Found {
  const rarity = isRare ? rarityOf(seed, bids) : undefined
  const drawn = (marketSeed = seed) => drawnMarket(marketSeed, bids, rarity)
  const { policy, delay, lost, window } = drawn()
  const keep = { wins: policy.minWinRate!, spend: policy.minSpend! }
  const reward = constrained((marketSeed) => drawn(marketSeed).market, seed, bids, keep)
  let [atOwn, late, loss, expected] = [0, 0, 0, 0]
  let offer: Offer | null = null
  const { market, restore } = controlled(drawn().market, control)
  const watched: Market = {
    ...market,
    offer(n, now) {
      offer = market.offer(n, now)
      return offer
    },
  }
  const { rows } = drive(watched, {
    ...{ bids, seed, policy, delay, lost, reward, rowBids },
    create: () => createLearner({ attributionWindow: window, slices: true }),
    watch: (n, { arm, factor, outBa, winIn, winOut }) => {
      if (n < bids / 2 || arm === 'holdout') return
      if (arm === 'treated' && factor < 1) {
        loss += offer!.wins(offer!.facts.inBa) - offer!.wins(outBa)
        expected += winIn - winOut
      }
      late++
      if (factor > 0.9999) atOwn++
    },
  })
  restore()
  const keptOf = (chosen: typeof rows) => {
    const { wins, winsBase, spend, spendBase } = sumOf(chosen)
    return { wins: wins / winsBase, spend: spend / spendBase }
  }
  const over = (chosen: typeof rows) => {
    const { wins, spend } = keptOf(chosen)
    return Math.min(wins - keep.wins, spend - keep.spend)
  }
  const { wins, spend } = keptOf(rows)
  const half = between(rows, 0.5)
  let worst = 1
  for (let index = firstRow; index + windowRows <= rows.length; index++)
    worst = Math.min(worst, over(rows.slice(index, index + windowRows)))
  return {
    possible: half.best / half.spendBase,
    margin: half.best > leastPossible * half.spendBase ? half.margin / half.best : null,
    budget: Math.max((1 - wins) / (1 - keep.wins), (1 - spend) / (1 - keep.spend)),
    all: over(rows),
    worst,
    ownPrice: atOwn / late,
    loss: expected > 0 ? loss / expected : null,
  }
}

/** A quantile and its standard error, by the bootstrap. */
function withError(values: readonly number[], share: number): string {
  const random = source(1)
  const draws = Array.from({ length: 200 }, () =>
    quantile(
      values.map(() => random.pick(values)),
      share,
    ),
  )
  const mean = draws.reduce((sum, draw) => sum + draw, 0) / draws.length
  const variance = draws.reduce((sum, draw) => sum + (draw - mean) ** 2, 0) / draws.length
  return `${quantile(values, share).toFixed(3)} ± ${Math.sqrt(variance).toFixed(3)}`
}

const missedOf = (found: readonly Found[]) => found.filter(({ all }) => all < -missed).length

/** What the learner earns without one part, beside what it earns with all parts on the same markets. */
export function partsTable(
  all: readonly Found[],
  without: Record<string, readonly Found[]>,
): Table {
  const margins = (found: readonly Found[]) => found.map(({ margin }) => margin ?? 0)
  const row = (found: readonly Found[]) => [
    quantile(margins(found), 0.1).toFixed(3),
    quantile(margins(found), 0.5).toFixed(3),
    `${missedOf(found)} of ${found.length}`,
  ]
  const ownMargins = margins(all)
  return {
    head: ['without', 'change of the margin', 'tenth percentile', 'median', 'floors missed'],
    rows: [
      ['(all parts)', '', ...row(all)],
      ...Object.entries(without).map(([part, found]) => {
        const changes = margins(found).map((margin, n) => margin - ownMargins[n]!)
        const change = `${mean(changes).toFixed(3)} ± ${standardError(changes).toFixed(3)}`
        return [part, change, ...row(found)]
      }),
    ],
  }
}

const said = {
  possible: "what the oracle earns, share of the spend at the bids' own prices",
  budget: 'share of the permitted loss that is used',
  worst: 'worst 10,000 bids: share kept less the floor',
  ownPrice: 'bids at their own price, last half',
  loss: 'wins that lower prices lost, over what they were expected to lose, last half',
} as const

/** `about`: which markets. */
export function drawnTable(about: string, found: readonly Found[]): Block[] {
  const margins = found.flatMap(({ margin }) => (margin === null ? [] : [margin]))
  const quantiles = (what: string, values: readonly number[]) => [
    what,
    withError(values, 0.1),
    withError(values, 0.5),
  ]
  return [
    about,
    {
      head: ['what', 'tenth percentile', 'median'],
      rows: [
        quantiles('margin at kept floors, share of what the oracle earns', margins),
        ...(Object.keys(said) as (keyof typeof said)[]).map((name) =>
          quantiles(
            said[name],
            found.flatMap((one) => one[name] ?? []),
          ),
        ),
        ['floors missed by more than .3 points', '', `${missedOf(found)} of ${found.length}`],
      ],
    },
  ]
}
