/** The figures of one node by supplier, as nodes publish them, and their sums. All fields are additive. */

import type { ArmSums } from '../../opd/pricing/stats.ts'
import type { Mode } from '../../opd/shared/arms.ts'
import type { EndpointOnNode } from '../management/endpoints.ts'

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

/** What became of the bids of a supplier in the last minutes. */
export interface FunnelFigures {
  decided: number
  /** Bids, and bid responses with bids, that lack the macro. */
  noMacro: number
  /** Bids that OPD left unchanged for another reason, such as a fixed price. */
  left: number
  /** Notices by status. */
  notices: Record<string, number>
  /** Wins whose price is in the sums, and those of them that cleared below half of the price sent. */
  cleared: number
  clearedLow: number
}

/** Of the requests to the endpoints of a supplier with a canary, or to those of the canary, since the start of the node. */
export interface VariantFigures {
  /** By outcome. */
  requests: Record<string, number>
  /** By upper bound in seconds. */
  durations: Record<string, number>
  /** Bids, and the sum of their prices in CPM as the supplier sent them. */
  bids: number
  prices: number
}

export interface SupplierFigures {
  /** Requests of the last minutes by outcome. */
  requests: Record<string, number>
  /** How long the supplier took for those that were sent to it, by upper bound in seconds. */
  durations: Record<string, number>
  funnel: FunnelFigures
  /** Bids since the start of the node that were decided long enough ago to have notices by now. */
  awaited: number
  /** Requests a second in the same minutes. */
  rate: number
  modes: Partial<Record<Mode, ModeFigures>>
  /** Bids and bid responses that were left unchanged, by reason. */
  left: Record<string, number>
  /** Notices by status. */
  notices: Record<string, number>
  endpoints: EndpointOnNode[]
  /** Absent: there was no canary. */
  variants?: Record<'main' | 'canary', VariantFigures>
  /** Requests a second that nodes may let through; null: no limit. */
  qps: number | null
}

export interface NodeProblem {
  /** The same name for as long as the same is wrong; `text` may change. */
  rule: string
  level: 'bad' | 'warn'
  /** A sentence without its first capital and its full stop. */
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
  problems: NodeProblem[]
  /** Seconds without a bid request, in steps of half a minute; null: the node takes none. */
  idle: number | null
  /** Notices without a supplier, such as rejected ones, by status. */
  unplaced: Record<string, number>
  suppliers: Record<string, SupplierFigures>
}

/** The sums of all numbers of two objects, at any depth. What one of them lacks counts as 0 there. */
export function addedCounts<T extends object>(a: T, b: T): T {
  const sums = { ...a } as Record<string, unknown>
  for (const [name, value] of Object.entries(b)) {
    const known = sums[name]
    if (known === undefined) sums[name] = value
    else
      sums[name] =
        typeof value === 'number' ? Number(known) + value : addedCounts(known as object, value)
  }
  return sums as T
}

const worse = { up: 0, failing: 1, ejected: 2, unhealthy: 3, out: 4 } as const

/** An endpoint has the worst state that any node sees. */
function mergedEndpoints(a: EndpointOnNode[], b: EndpointOnNode[]): EndpointOnNode[] {
  const byUrl = new Map(a.map((endpoint) => [endpoint.url, endpoint]))
  for (const endpoint of b) {
    const known = byUrl.get(endpoint.url)
    if (known === undefined || worse[endpoint.state] > worse[known.state])
      byUrl.set(endpoint.url, endpoint)
  }
  return [...byUrl.values()]
}

export function added(a: SupplierFigures | undefined, b: SupplierFigures): SupplierFigures {
  if (a === undefined) return b
  const { endpoints, qps, ...sums } = a
  const { endpoints: others, qps: limit, ...more } = b
  return {
    ...addedCounts(sums, more),
    endpoints: mergedEndpoints(endpoints, others),
    qps: qps === null || limit === null ? null : qps + limit,
  }
}

/** A quantile of a histogram, interpolated within its bucket; null without observations. */
export function quantile(counts: Record<string, number>, share: number): number | null {
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
