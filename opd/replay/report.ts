/** The report of a replay. Its keys are documented and stable. */

import type { ReplayPolicy } from './replica.ts'
import type { Estimate, ReplaySums } from './sums.ts'

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

interface Estimates {
  win_rate: Estimate | null
  margin_per_bid: Estimate | null
  margin_share: Estimate | null
  /** Against the holdout; null: the holdout is too small. */
  kept_wins: Estimate | null
  kept_spend: Estimate | null
}

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
  verdict: 'verified' | 'model-based, unverified'
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
const percent = (part: number, whole: number) => `${((100 * part) / whole).toFixed(1)} %`

function loggedFigures(sums: ReplaySums): Figures {
  const { logged, treated, heldOut, ips } = sums
  const compared = ips.baseWins.effective >= leastEffective
  return {
    win_rate: finite(logged.rate.value),
    mean_factor: finite(logged.factor.value),
    margin_per_bid: finite(logged.margin.value),
    margin_share: finite(logged.share.value),
    kept_wins: compared ? finite(treated.wins.value / heldOut.wins.value) : null,
    kept_spend: compared ? finite(treated.spend.value / heldOut.spend.value) : null,
  }
}

function modelFigures({ model }: ReplaySums): Figures {
  return {
    win_rate: finite(model.rate.value),
    mean_factor: finite(model.factor.value),
    margin_per_bid: finite(model.margin.value),
    margin_share: finite(model.share.value),
    kept_wins: finite(model.keptWins.value),
    kept_spend: finite(model.keptSpend.value),
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
  return {
    win_rate: robust.rate.estimate(),
    margin_per_bid: robust.margin.estimate(),
    margin_share: robust.share.estimate(),
    kept_wins: compared ? robust.keptWins.estimate() : null,
    kept_spend: compared ? robust.keptSpend.estimate() : null,
  }
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
      `the explored slice says as much as ${effective} bids, ${leastEffective} are wanted`,
    )
  if (explored > 0 && unsupported > bids * mostUnsupported)
    forbid.push(`${percent(unsupported, bids)} of the prices lie where nothing was explored`)
  if (forbid.length === 0 && slice < bids)
    narrow.push(`holds for the ${percent(slice, bids)} of bids that were drawn`)
  if (forbid.length === 0 && ips.baseWins.effective < leastEffective)
    narrow.push(`kept wins and spend are unverified: the holdout has ${sums.holdouts} bids`)
  return { forbid, narrow }
}

function totals(sums: ReplaySums): TotalReport {
  const { forbid, narrow } = doubts(sums)
  const verified = forbid.length === 0 && sums.bids > 0
  const compared = sums.ips.baseWins.effective >= leastEffective
  return {
    verdict: verified ? 'verified' : 'model-based, unverified',
    why: [...forbid, ...narrow],
    bids: sums.bids,
    wins: sums.wins,
    logged: loggedFigures(sums),
    model: modelFigures(sums),
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
