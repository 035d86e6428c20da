/** The figures of the dashboard, from the counters of this node (the metrics of CONTRACT 10, as JSON). */

import {
  bidReasons,
  type EngineStats,
  responseReasons,
  type SupplierStats,
} from '../../opd/engine/stats.ts'
import { type Mode, modes } from '../../opd/pricing/arms.ts'
import { canSee, may } from '../auth/roles.ts'
import type { ImpressionCounters } from '../impressions/counters.ts'
import { compared, type Interval } from '../metrics/kept.ts'
import type { Caller } from '../ports.ts'

export interface LiveMode {
  mode: Mode
  /** Since the start of the node. */
  bids: number
  wins: number
  /** CPM in the base currency, summed over wins. */
  margin: number
  revenue: number
  /** Win rate of optimized bids divided by that of the holdout. */
  kept: Interval | null
  /** Margin per bid of optimized bids minus that of the holdout, CPM in the base currency. */
  uplift: Interval | null
}

export interface LiveState {
  state: 'on' | 'shadow' | 'off' | 'invalid'
  mode: Mode
}

export interface LiveEndpoint {
  url: string
  state: 'up' | 'failing' | 'ejected'
  /** Consecutive failures up to the last request. */
  failures: number
}

export interface LiveIntegration {
  ssp: string
  name: string
  held: boolean
  /** The configured state of OPD; null if not available. */
  opd: LiveState | null
  /** The configured mode first, then other modes with counts. */
  modes: LiveMode[]
  /** Bids and bid responses that were left unchanged, by reason, without zeros. */
  left: Record<string, number>
  /** Notices by status. */
  impressions: Record<string, number>
  endpoints: LiveEndpoint[]
  /** Requests per second of this node, null without limit; `refused` since the start. */
  allotment: { qps: number | null; refused: number } | null
}

export interface LiveSnapshot {
  /** Milliseconds since the epoch. */
  at: number
  location: string
  /** Currency of the sums. */
  currency: string | null
  /** Whether the caller may hold integrations. */
  operator: boolean
  heldAll: boolean
  /** Notices without an integration, such as rejected ones, by status; only for account `*`. */
  unplaced: Record<string, number>
  integrations: LiveIntegration[]
}

export interface LiveDeps {
  suppliers(): readonly { id: string; name: string; account: string | null }[]
  stats: EngineStats
  counters: ImpressionCounters
  holds(): ReadonlySet<string>
  location: string
  /** The base currency. */
  currency?: () => string
  opd?: (ssp: string) => LiveState | null
  endpoints?: (ssp: string) => LiveEndpoint[]
  allotment?: (ssp: string) => LiveIntegration['allotment']
  now(): number
}

function leftOf(stats: SupplierStats): Record<string, number> {
  const left: Record<string, number> = {}
  const add = (reason: string, count: number) => {
    if (count > 0) left[reason] = (left[reason] ?? 0) + count
  }
  for (const mode of modes)
    for (const [at, reason] of bidReasons.entries()) add(reason, stats.modes[mode].left[at] ?? 0)
  for (const [at, reason] of responseReasons.entries()) add(reason, stats.responses[at] ?? 0)
  return left
}

function modesOf(stats: SupplierStats, first: Mode | undefined): LiveMode[] {
  return [...modes]
    .sort((one, other) => Number(other === first) - Number(one === first))
    .filter((mode) => stats.modes[mode].configured || stats.modes[mode].inSum > 0)
    .map((mode) => {
      const of = stats.modes[mode]
      const total = { bids: 0, wins: 0, margin: 0, revenue: 0 }
      for (const { bids, wins, margin, cleared } of of.arms) {
        total.bids += bids
        total.wins += wins
        total.margin += margin
        total.revenue += cleared + margin
      }
      const { kept, uplift } = compared(of)
      return { mode, ...total, kept, uplift }
    })
}

/** Only the caller's suppliers; account `*` sees all. */
export function liveSnapshot(deps: LiveDeps, caller: Caller): LiveSnapshot {
  const { suppliers, stats, counters, holds, location, endpoints, allotment, opd, now } = deps
  const held = holds()
  const statuses = new Map<string, Record<string, number>>()
  for (const [key, count] of counters.impressions) {
    const [ssp = '', , status = ''] = key.split('\t')
    const of = statuses.get(ssp) ?? {}
    of[status] = (of[status] ?? 0) + count
    statuses.set(ssp, of)
  }
  return {
    at: now(),
    location,
    currency: deps.currency?.() ?? null,
    operator: may(caller.roles, 'operator'),
    heldAll: held.has('*'),
    unplaced: caller.account === '*' ? (statuses.get('') ?? {}) : {},
    integrations: suppliers()
      .filter(({ account }) => canSee(caller, account))
      .map(({ id, name }) => {
        const own = stats.suppliers.get(id)
        const state = opd?.(id) ?? null
        return {
          ssp: id,
          name,
          held: held.has('*') || held.has(id),
          opd: state,
          modes: own === undefined ? [] : modesOf(own, state?.mode),
          left: own === undefined ? {} : leftOf(own),
          impressions: statuses.get(id) ?? {},
          endpoints: endpoints?.(id) ?? [],
          allotment: allotment?.(id) ?? null,
        }
      }),
  }
}
