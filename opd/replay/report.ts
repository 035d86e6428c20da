/** The report of a replay. Its keys are documented and stable. */

import type { Estimate, Ratio, ReplaySums } from './estimates.ts'
import type { ReplayPolicy } from './replica.ts'

/** One integration in one mode. */
export interface Evaluated {
  ssp: string
  policy: ReplayPolicy
  sums: ReplaySums
  /** Randomized bids since the last holdout bid. */
  sinceHoldout: number
  /** Bids that the model did not price, by arm. */
  left: Record<string, number>
}

/** With fewer effective samples the result is unverified: wins are rare, and a normal interval needs dozens of them. */
const leastEffective = 100
/** With a larger share of prices without evidence, the result is unverified. */
const mostUnsupported = 0.01

interface Figures {
  win_rate: number | null
  mean_factor: number | null
  /** CPM a bid in the base currency. */
  margin_per_bid: number | null
  /** Margin divided by spend (in_ba of wins). */
  margin_share: number | null
  kept_wins: number | null
  kept_spend: number | null
}

/** Kept wins and spend are against the holdout; null: the holdout is too small. */
type Estimates = Record<Exclude<keyof Figures, 'mean_factor'>, Estimate | null>

interface Slice {
  /** Bids of randomized arms, from which ips and doubly_robust are estimated. */
  bids: number
  explored: number
  /** Effective samples that match the evaluated prices: explored bids, or the holdout at factor 1. */
  effective: number
  holdout: number
  holdout_effective: number
}

export interface TotalReport {
  status: 'verified' | 'model-based, unverified'
  /** Why the result, or part of it, is unverified; empty: all of it is verified. */
  why: string[]
  bids: number
  wins: number
  logged: Figures
  model: Figures
  ips: Estimates | null
  doubly_robust: Estimates | null
  slice: Slice
}

export interface IntegrationReport extends TotalReport {
  ssp: string
  mode: string
  policy: Evaluated['policy']['policy'] & { from: 'file' | 'default' }
  left: Record<string, number>
}

const finite = (value: number) => (Number.isFinite(value) ? value : null)
const mapped = <Name extends string, T>(ratios: Record<Name, Ratio>, pick: (ratio: Ratio) => T) =>
  Object.fromEntries(
    Object.entries<Ratio>(ratios).map(([name, ratio]) => [name, pick(ratio)]),
  ) as Record<Name, T>
const percent = (part: number, total: number) => `${((100 * part) / total).toFixed(1)} %`

const valuesOf = <Name extends string>(ratios: Record<Name, Ratio>) =>
  mapped(ratios, ({ value }) => finite(value))

function loggedFigures({ logged, treated, heldOut, ips }: ReplaySums): Figures {
  const compared = ips.baseWins.effective >= leastEffective
  return {
    ...valuesOf(logged),
    kept_wins: compared ? finite(treated.wins.value / heldOut.wins.value) : null,
    kept_spend: compared ? finite(treated.spend.value / heldOut.spend.value) : null,
  }
}

function scaled(estimate: Estimate | null, by: number): Estimate | null {
  if (estimate === null) return null
  const { value, low, high } = estimate
  return { value: value * by, low: low * by, high: high * by }
}

function ipsEstimates({ ips, inSum, bids }: ReplaySums, compared: boolean): Estimates {
  return {
    win_rate: ips.wins.estimate(),
    // Margin per unit of in_ba, so that the prices of the matching bids do not bias it.
    margin_per_bid: scaled(ips.margin.estimate(), inSum / bids),
    margin_share: ips.share.estimate(),
    kept_wins: compared ? ips.wins.over(ips.baseWins) : null,
    kept_spend: compared ? ips.spend.over(ips.baseSpend) : null,
  }
}

function robustEstimates({ robust }: ReplaySums, compared: boolean): Estimates {
  const estimates = mapped(robust, (ratio) => ratio.estimate())
  return compared ? estimates : { ...estimates, kept_wins: null, kept_spend: null }
}

/** Reasons why the result is unverified (`forbid`), or verified in part (`narrow`). */
function doubts(sums: ReplaySums): { forbid: string[]; narrow: string[] } {
  const { bids, slice, explored, unsupported, ips } = sums
  const forbid: string[] = []
  const narrow: string[] = []
  const effective = Math.floor(ips.wins.effective)
  if (explored === 0) forbid.push('nothing was explored (explore 0, shadow, or held)')
  else if (effective < leastEffective)
    forbid.push(
      `the explored bids count as ${effective} effective samples, ${leastEffective} are needed`,
    )
  if (explored > 0 && unsupported > bids * mostUnsupported)
    forbid.push(`${percent(unsupported, bids)} of the prices are outside of what was explored`)
  if (forbid.length === 0 && slice < bids)
    narrow.push(`for the ${percent(slice, bids)} of bids in randomized arms`)
  if (forbid.length === 0 && ips.baseWins.effective < leastEffective)
    narrow.push(`kept wins and spend are unverified: the holdout has only ${sums.holdouts} bids`)
  return { forbid, narrow }
}

function totals(sums: ReplaySums): TotalReport {
  const { forbid, narrow } = doubts(sums)
  const verified = forbid.length === 0 && sums.bids > 0
  const compared = sums.ips.baseWins.effective >= leastEffective
  return {
    status: verified ? 'verified' : 'model-based, unverified',
    why: [...forbid, ...narrow],
    bids: sums.bids,
    wins: sums.wins,
    logged: loggedFigures(sums),
    model: valuesOf(sums.model),
    ips: verified ? ipsEstimates(sums, compared) : null,
    doubly_robust: verified ? robustEstimates(sums, compared) : null,
    slice: {
      bids: sums.slice,
      explored: sums.explored,
      effective: Math.floor(sums.ips.wins.effective),
      holdout: sums.holdouts,
      holdout_effective: Math.floor(sums.ips.baseWins.effective),
    },
  }
}

export function report(
  evaluated: readonly Evaluated[],
  total: ReplaySums,
): { integrations: IntegrationReport[]; total: TotalReport } {
  const integrations = evaluated.map(({ ssp, policy, sums, left }) => ({
    ssp,
    mode: policy.mode,
    policy: { ...policy.policy, from: policy.from },
    left,
    ...totals(sums),
  }))
  integrations.sort((one, other) => other.bids - one.bids || (one.ssp < other.ssp ? -1 : 1))
  return { integrations, total: totals(total) }
}
