/** Measures one goal by one run on one seed. */
import { createLearner, type Policy } from '../../opd/learner.ts'
import { isAlarm } from '../../opd/shared/arms.ts'
import { type Control, controlled } from './controlled.ts'
import {
  between,
  type Driven,
  type DriveOptions,
  drive,
  type Row,
  sumOf,
  usualDelay,
} from './drive.ts'
import { firstBidAt, type Market, type MarketOf } from './market.ts'
import { synthetic } from './markets/synthetic.ts'
import { balanced, balancedEach, constrained, type OracleReward } from './oracle.ts'
import { type Source, source } from './random.ts'

export interface Measured {
  /** The value that is compared with the goal. */
  value: number
  /** Other figures. */
  notes: Record<string, number>
  rows: Row[]
}

const common = { holdout: 0.02, explore: 0.005, minFactor: 0 }
export const pure: Policy = { ...common, minWinRate: 0, minSpend: 0, holdout: 0 }
const kept: Policy = { ...common, minWinRate: 0.97, minSpend: 0.97 }
const margin15: Policy = { ...common, targetMargin: 0.15 }

export const engine = () => createLearner({ attributionWindow: 1_800_000 })

function run(
  marketOf: MarketOf,
  seed: number,
  options: Partial<DriveOptions> & { bids: number },
): Driven {
  return drive(marketOf(seed), { seed, policy: pure, create: engine, ...options })
}

const ratio = (row: Row) => row.margin / row.best

/** Share of the oracle's margin from share `from` of the run on. */
export function pureMargin(
  marketOf: MarketOf,
  seed: number,
  bids: number,
  from: number,
  options: Partial<DriveOptions> = {},
): Measured {
  const { rows } = run(marketOf, seed, { bids, ...options })
  const late = between(rows, from)
  const notes = { before: ratio(between(rows, 0, from)), wins: late.wins / late.winsBest }
  return { value: ratio(late), notes, rows }
}

/** Points of the oracle's margin, over the second half, that `options` cost. */
export function lost(
  seed: number,
  bids: number,
  options: Partial<DriveOptions>,
  usual: Partial<DriveOptions> = {},
): Measured {
  const without = ratio(between(run(synthetic, seed, { bids, ...usual }).rows, 0.5))
  const { rows } = run(synthetic, seed, { bids, ...usual, ...options })
  const share = ratio(between(rows, 0.5))
  return { value: 100 * (without - share), notes: { without, with: share }, rows }
}

/** The lowest kept win rate over windows of `size` bids after `skip`. */
function worstWindow(rows: readonly Row[], size: number, skip: number): number {
  const rowBids = rows[0]!.bids
  const long = Math.max(1, Math.round(size / rowBids))
  let worst = Number.POSITIVE_INFINITY
  for (let index = Math.ceil(skip / rowBids); index + long <= rows.length; index++) {
    const { wins, winsBase } = sumOf(rows.slice(index, index + long))
    worst = Math.min(worst, wins / winsBase)
  }
  return worst
}

const multipliers = new Map<string, OracleReward>()
function once(name: string, make: () => OracleReward): OracleReward {
  const known = multipliers.get(name) ?? make()
  multipliers.set(name, known)
  return known
}

export function underConstraints(
  marketOf: MarketOf,
  seed: number,
  bids: number,
  options: Partial<DriveOptions> = {},
  control: Control = 'learner',
): Measured {
  const keep = { wins: kept.minWinRate!, spend: kept.minSpend! }
  const reward = once(`kept ${marketOf(seed).name} ${seed} ${bids}`, () =>
    constrained(marketOf, seed, bids, keep),
  )
  const { market, restore } = controlled(marketOf(seed), control)
  const { rows } = run(() => market, seed, {
    ...{ bids, policy: kept, reward, rowBids: 1000 },
    ...options,
  })
  restore()
  const all = between(rows, 0)
  const half = between(rows, 0.5)
  const notes = {
    all: ratio(all),
    wins: all.wins / all.winsBase,
    spend: all.spend / all.spendBase,
    worst: worstWindow(rows, bids / 3, (2 * bids) / 15),
    theta: reward.theta,
    lambda: reward.lambda,
  }
  return { value: ratio(half), notes, rows }
}

/**
 * Over the whole run: the oracle keeps the share over the whole run with one multiplier, .19 by day and .11 by night if
 * competition has a daily cycle. Half a day of it is no measure for a learner that keeps .15 in each half, and at each supplier;
 * the notes have the share of wins that an oracle with these limits wins.
 */
export function marginMode(marketOf: MarketOf, seed: number, bids: number): Measured {
  const reward = once(`margin ${marketOf(seed).name} ${seed} ${bids}`, () =>
    balanced(marketOf, seed, bids, margin15.targetMargin!),
  )
  const { rows } = run(marketOf, seed, { bids, policy: margin15, mode: 'margin', reward })
  const half = between(rows, 0.5)
  const all = between(rows, 0)
  const notes = {
    share: half.margin / half.spend,
    shareAll: all.margin / all.spend,
    'oracle by supplier and half': balancedEach(marketOf, seed, bids, margin15.targetMargin!),
  }
  return { value: all.wins / all.winsBest, notes, rows }
}

/** Half of the publishers shift: the margin from 4,000 bids later on, against the same bids without the shift. */
export function shifted(seed: number, bids: number, shift: number): Measured {
  const shiftAt = Math.round(bids * 0.7)
  const rowBids = 1000
  const { rows } = run((seed) => synthetic(seed, { shiftAt, shift }), seed, { bids, rowBids })
  const still = run(synthetic, seed, { bids, rowBids }).rows
  const from = (shiftAt + 4000) / bids
  const to = (shiftAt + 14_000) / bids
  const share = (part: readonly Row[], low: number, high: number) => ratio(between(part, low, high))
  const shiftShare = shiftAt / bids
  return {
    value: share(rows, from, to) / share(still, from, to),
    notes: {
      before: share(rows, shiftShare - 0.1, shiftShare),
      'first 4k': share(rows, shiftShare, from) / share(still, shiftShare, from),
    },
    rows,
  }
}

/** From 8 s to 20 min over the middle third of the run. */
export function movingDelay(bids: number, every: number) {
  return (now: number, draw: Source) => {
    const through = ((now - firstBidAt) / (bids * every) - 1 / 3) * 3
    const grown = Math.log(1_200_000 / 8000) * Math.min(1, Math.max(0, through))
    return usualDelay(now, draw) * Math.exp(grown)
  }
}

/** A fall of the true win rate: the share of a day's wins that is lost before a guard acts. */
export function fallen(seed: number, bids: number): Measured {
  const dropAt = Math.round(bids * 0.6)
  const acted = new Set<string>()
  let [lostWins, dayWins, actedAt] = [0, 0, 0]
  const market = synthetic(seed, { dropAt, drop: 0.2 })
  let [supplier, wins] = ['', 0]
  const offer: Market['offer'] = (n, now) => {
    const found = market.offer(n, now)
    supplier = found.facts.supplier
    wins = found.wins(found.facts.inBa)
    return found
  }
  const { rows } = drive(
    { ...market, offer },
    {
      seed,
      bids,
      policy: kept,
      create: engine,
      watch(n, { guard }) {
        dayWins += n < dropAt ? (wins * 150_000) / dropAt : 0
        if (n < dropAt || acted.has(supplier)) return
        if (guard !== undefined && isAlarm(guard)) {
          acted.add(supplier)
          actedAt = n - dropAt
        }
        lostWins += wins * 0.25
      },
    },
  )
  const notes = { suppliers: acted.size, 'bids until the last': actedAt }
  return { value: (100 * lostWins) / dayWins, notes, rows }
}

/** Compares decisions of a learner and of one that was restored from its snapshot, with the same random numbers. */
export function restored(seed: number, bids: number): Measured {
  const { rows, bidders } = run(synthetic, seed, { bids, policy: kept })
  const first = bidders[0]!
  const again = createLearner({ attributionWindow: 1_800_000 }, first.snapshot!())
  const market = synthetic(seed + 1)
  const randoms = [source(seed).uniform, source(seed).uniform]
  const asked = 500
  const now = 1_760_000_000_000 + bids * market.every
  let same = 0
  for (let n = 0; n < asked; n++) {
    const { facts } = market.offer(n, now)
    const [one, other] = [first, again].map((bidder, index) =>
      bidder.decide(facts, kept, `key-${n}`, now, randoms[index]!),
    )
    if (JSON.stringify(one) === JSON.stringify(other)) same++
  }
  return { value: same / asked, notes: {}, rows }
}
