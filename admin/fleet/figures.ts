/** The figures of one node by supplier, as nodes publish them, and their sums. All fields are additive. */

import type { ArmSums } from '../../opd/engine/stats.ts'
import type { Mode } from '../../opd/pricing/arms.ts'
import { addedArms } from '../metrics/comparison.ts'

export interface ModeFigures {
  /** Since the start of the node, all arms. Money is CPM in the base currency, summed over wins. */
  bids: number
  wins: number
  margin: number
  revenue: number
  optimised: ArmSums
  holdout: ArmSums
  /** Bids by upper bound of the factor. */
  factors: Record<string, number>
  /** Nodes by the guard of their latest decision. */
  guards: Record<string, number>
  /** How often each guard became active. */
  alarms: Record<string, number>
}

export interface EndpointFigures {
  url: string
  state: 'up' | 'failing' | 'ejected'
  /** Consecutive failures up to the last request. */
  failures: number
}

export interface SupplierFigures {
  /** Requests of the last minutes by outcome, and their durations by upper bound in seconds. */
  requests: Record<string, number>
  durations: Record<string, number>
  /** Requests a second in the same minutes. */
  rate: number
  modes: Partial<Record<Mode, ModeFigures>>
  /** Bids and bid responses that were left unchanged, by reason. */
  left: Record<string, number>
  /** Notices by status. */
  notices: Record<string, number>
  endpoints: EndpointFigures[]
  /** Requests a second that nodes may let through; null: no limit. */
  qps: number | null
}

export interface NodeProblem {
  level: 'bad' | 'warn'
  /** A sentence without its first capital. */
  text: string
}

export interface NodeFigures {
  node: string
  location: string
  version: string
  /** Milliseconds since the epoch. */
  started: number
  at: number
  /** Length of the last minutes in seconds; shorter after a start. */
  window: number
  /** Absent from figures of a version before. */
  problems?: NodeProblem[]
  /** Notices without a supplier, such as rejected ones, by status. */
  unplaced: Record<string, number>
  suppliers: Record<string, SupplierFigures>
}

type Counts = Record<string, number>

export function addedCounts(a: Counts, b: Counts): Counts {
  const sums = { ...a }
  for (const [name, count] of Object.entries(b)) sums[name] = (sums[name] ?? 0) + count
  return sums
}

function addedMode(a: ModeFigures | undefined, b: ModeFigures): ModeFigures {
  if (a === undefined) return b
  return {
    bids: a.bids + b.bids,
    wins: a.wins + b.wins,
    margin: a.margin + b.margin,
    revenue: a.revenue + b.revenue,
    optimised: addedArms(a.optimised, b.optimised),
    holdout: addedArms(a.holdout, b.holdout),
    factors: addedCounts(a.factors, b.factors),
    guards: addedCounts(a.guards, b.guards),
    alarms: addedCounts(a.alarms, b.alarms),
  }
}

const worse = { up: 0, failing: 1, ejected: 2 } as const

/** An endpoint has the worst state that any node sees. */
function mergedEndpoints(a: EndpointFigures[], b: EndpointFigures[]): EndpointFigures[] {
  const byUrl = new Map(a.map((each) => [each.url, each]))
  for (const each of b) {
    const known = byUrl.get(each.url)
    if (known === undefined || worse[each.state] > worse[known.state]) byUrl.set(each.url, each)
  }
  return [...byUrl.values()]
}

export function added(a: SupplierFigures | undefined, b: SupplierFigures): SupplierFigures {
  if (a === undefined) return b
  const modes = { ...a.modes }
  for (const [mode, figures] of Object.entries(b.modes) as [Mode, ModeFigures][])
    modes[mode] = addedMode(modes[mode], figures)
  return {
    requests: addedCounts(a.requests, b.requests),
    durations: addedCounts(a.durations, b.durations),
    rate: a.rate + b.rate,
    modes,
    left: addedCounts(a.left, b.left),
    notices: addedCounts(a.notices, b.notices),
    endpoints: mergedEndpoints(a.endpoints, b.endpoints),
    qps: a.qps === null || b.qps === null ? null : a.qps + b.qps,
  }
}

/** A quantile of a histogram, interpolated within its bucket; null without observations. */
export function quantile(counts: Counts, share: number): number | null {
  const buckets = Object.entries(counts)
    .map(([bound, count]) => ({ bound: Number(bound), count }))
    .sort((one, other) => one.bound - other.bound)
  const total = buckets.reduce((sum, { count }) => sum + count, 0)
  if (total === 0) return null
  let [below, before] = [0, 0]
  for (const { bound, count } of buckets) {
    if (before + count >= share * total && count > 0)
      return Number.isFinite(bound)
        ? below + ((share * total - before) / count) * (bound - below)
        : below
    before += count
    if (Number.isFinite(bound)) below = bound
  }
  return below
}
