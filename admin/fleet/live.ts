/** The figures of the console: sums over nodes, with intervals, and the state of each integration. */
import type { ArmSums } from '../../opd/engine/stats.ts'
import { type Mode, modes } from '../../opd/pricing/arms.ts'
import { type Interval, keptSpend, keptWins, uplift } from '../../opd/pricing/confidence.ts'
import { canSee, may, type Role, roles } from '../auth/roles.ts'
import type { Caller } from '../ports.ts'
import {
  added,
  addedCounts,
  type EndpointFigures,
  type NodeFigures,
  type NodeProblem,
  quantile,
  type SupplierFigures,
} from './figures.ts'
import { type Health, healthOf, keptLevel, type Level } from './health.ts'
import type { ArmPair, KeptSums } from './kept-sums.ts'

export interface LiveState {
  state: 'on' | 'shadow' | 'off' | 'invalid'
  mode: Mode
  minWinRate: number
  minSpend: number
}

export interface Kept extends Interval {
  floor: number
  level: Level
}

export interface LiveMode {
  mode: Mode
  bids: number
  wins: number
  /** Currency units. */
  margin: number
  revenue: number
  kept: Kept | null
  keptSpend: Kept | null
  /**
   * Wins and spend (currency units) that optimized bids would have had at the rates of the holdout, minus theirs. Below 0:
   * they have more.
   */
  missing: { wins: number; spend: number } | null
  /** Margin per bid of optimized bids minus that of the holdout, in currency units for 1,000 bids. */
  uplift: Interval | null
  factors: { upTo: number; bids: number }[]
  guards: Record<string, number>
  alarms: Record<string, number>
}

export interface LiveIntegration {
  ssp: string
  name: string
  account: string | null
  /** `all`: because all integrations are held. */
  held: 'no' | 'own' | 'all'
  opd: LiveState | null
  health: Health
  /** Requests of the last minutes by outcome. */
  requests: Record<string, number>
  /** Requests a second in the same minutes. */
  rate: number
  /** Seconds; null without requests. */
  p50: number | null
  p99: number | null
  /** The configured mode first, then other modes with bids. */
  modes: LiveMode[]
  left: Record<string, number>
  notices: Record<string, number>
  endpoints: EndpointFigures[]
  qps: number | null
}

export interface LiveNode {
  node: string
  location: string
  version: string
  /** ISO 8601. */
  started: string
  /** Seconds since its figures were published. */
  age: number
  /** Seconds that the requests of the last minutes cover. */
  window: number
  problems: NodeProblem[]
}

export interface LiveSnapshot {
  /** Milliseconds since the epoch. */
  at: number
  /** What the figures are summed over. */
  scope: 'all nodes' | 'one node'
  /** The node that answered. */
  node: string
  nodes: LiveNode[]
  currency: string
  caller: { name: string; account: string; role: Role | null }
  heldAll: boolean
  /** Notices without an integration, by status; only for account `*`. */
  unplaced: Record<string, number>
  integrations: LiveIntegration[]
}

export interface LiveDeps {
  nodes(): Promise<NodeFigures[]>
  /** Of all nodes, over the last days. */
  kept: KeptSums['read']
  suppliers(): readonly { id: string; name: string; account: string | null }[]
  holds(): ReadonlySet<string>
  /** The base currency. */
  currency(): string
  opd(ssp: string): LiveState | null
  now(): number
}

const beside = (interval: Interval | null, floor: number | undefined): Kept | null =>
  interval === null || floor === undefined
    ? null
    : { ...interval, floor, level: keptLevel(interval, floor) }

/** Sums of CPM are for a thousand impressions. */
const units = (cpm: number) => cpm / 1000

function missingOf(optimised: ArmSums, holdout: ArmSums): LiveMode['missing'] {
  if (holdout.bids === 0) return null
  const share = optimised.bids / holdout.bids
  return {
    wins: holdout.wins * share - optimised.wins,
    spend: units(holdout.spend * share - optimised.spend),
  }
}

function modesOf(
  figures: SupplierFigures | undefined,
  opd: LiveState | null,
  armsOf: (mode: Mode) => ArmPair | null,
): LiveMode[] {
  return [...modes]
    .sort((one, other) => Number(other === opd?.mode) - Number(one === opd?.mode))
    .flatMap((mode) => {
      const of = figures?.modes[mode]
      if (of === undefined) return []
      const { bids, wins, guards, alarms } = of
      const { optimised, holdout } = armsOf(mode) ?? of
      const factors = Object.entries(of.factors)
        .map(([upTo, count]) => ({ upTo: Number(upTo), bids: count }))
        .sort((one, other) => one.upTo - other.upTo)
      return {
        ...{ mode, bids, wins, guards, alarms, factors },
        margin: units(of.margin),
        revenue: units(of.revenue),
        kept: beside(keptWins(optimised, holdout), opd?.minWinRate),
        keptSpend: beside(keptSpend(optimised, holdout), opd?.minSpend),
        missing: missingOf(optimised, holdout),
        // CPM for each bid is the amount for 1,000 bids
        uplift: uplift(optimised, holdout),
      }
    })
}

/** Only the caller's suppliers; account `*` sees all. `only`: the id of a node. Null: there is no such node. */
export async function liveSnapshot(
  deps: LiveDeps,
  caller: Caller,
  only: string | undefined,
): Promise<LiveSnapshot | null> {
  const { suppliers, holds, now } = deps
  const all = await deps.nodes()
  const counted = only === undefined ? all : all.filter(({ node }) => node === only)
  if (counted.length === 0) return null
  // the sums of the last days are those of all nodes
  const kept = only === undefined ? await deps.kept() : () => null
  const held = holds()
  const at = now()
  const integrations = suppliers()
    .filter(({ account }) => canSee(caller, account))
    .map(({ id, name, account }): LiveIntegration => {
      let figures: SupplierFigures | undefined
      for (const node of counted)
        if (node.suppliers[id] !== undefined) figures = added(figures, node.suppliers[id])
      const opd = deps.opd(id)
      const own = modesOf(figures, opd, (mode) => kept(id, mode))
      const [first] = own
      const isHeld = held.has('*') || held.has(id)
      const measured = opd?.state === 'on'
      return {
        ...{ ssp: id, name, account, opd, modes: own },
        held: held.has('*') ? 'all' : held.has(id) ? 'own' : 'no',
        health: healthOf(figures, {
          opd: opd?.state ?? null,
          held: isHeld,
          kept: measured ? (first?.kept ?? null) : null,
          keptSpend: measured ? (first?.keptSpend ?? null) : null,
          minWinRate: opd?.minWinRate ?? null,
          minSpend: opd?.minSpend ?? null,
        }),
        requests: figures?.requests ?? {},
        rate: figures?.rate ?? 0,
        p50: quantile(figures?.durations ?? {}, 0.5),
        p99: quantile(figures?.durations ?? {}, 0.99),
        left: figures?.left ?? {},
        notices: figures?.notices ?? {},
        endpoints: figures?.endpoints ?? [],
        qps: figures?.qps ?? null,
      }
    })
  const { subject, account } = caller
  const role = roles.findLast((each) => may(caller.roles, each)) ?? null
  return {
    at,
    scope: only === undefined ? 'all nodes' : 'one node',
    node: all[0]!.node,
    nodes: all.map(
      ({ node, location, version, started, at: published, window, problems = [] }) => ({
        ...{ node, location, version, window, problems },
        started: new Date(started).toISOString(),
        age: Math.max(0, (at - published) / 1000),
      }),
    ),
    currency: deps.currency(),
    caller: { name: subject, account, role },
    heldAll: held.has('*'),
    unplaced:
      account === '*'
        ? counted.reduce<Record<string, number>>((sum, node) => addedCounts(sum, node.unplaced), {})
        : {},
    integrations,
  }
}
