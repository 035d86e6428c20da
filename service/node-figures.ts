/** The figures of this node for the console, from the counters of proxy, engine and notices. */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type {
  ModeFigures,
  NodeFigures,
  NodeProblem,
  SupplierFigures,
} from '../admin/fleet/figures.ts'
import { programVersion } from '../admin/http/version.ts'
import type { ImpressionCounters } from '../admin/impressions/counters.ts'
import { armPairOf } from '../admin/metrics/comparison.ts'
import { createSlices } from '../opd/base/slices.ts'
import {
  type EngineStats,
  factorBounds,
  type ModeStats,
  type SupplierStats,
} from '../opd/pricing/stats.ts'
import { guards, modes } from '../opd/shared/arms.ts'
import { bidReasons, responseReasons } from '../opd/shared/reasons.ts'
import { bounds, outcomes, type SupplierMetrics } from '../proxy/metrics.ts'
import { nodeLoad, type ProcessLoad } from '../proxy/node-load.ts'
import type { BidProxy } from '../proxy/proxy.ts'

interface NodeFiguresDeps {
  node: string
  proxy: BidProxy
  stats: EngineStats
  counters: ImpressionCounters
  location: string
  now: () => number
  /** Gauges of the other processes of this node. */
  others: () => Iterable<ProcessLoad>
  problems: () => NodeProblem[]
}

/** The last minutes are the time since the oldest mark. */
const markEvery = 30_000
const marks = 10

type Counts = Record<string, number>
interface Mark {
  at: number
  counts: Map<SupplierMetrics, Float64Array>
}

/** The positive entries, by name. */
function named(
  names: readonly (string | number)[],
  counts: ArrayLike<number>,
  before?: Float64Array,
  offset = 0,
): Counts {
  const result: Counts = {}
  for (const [at, name] of names.entries()) {
    const count = counts[at]! - (before?.[offset + at] ?? 0)
    if (count > 0) result[name] = count
  }
  return result
}

const durationNames = [...bounds, Number.POSITIVE_INFINITY]
const factorNames = [...factorBounds, Number.POSITIVE_INFINITY]

function countsOf({ requests, duration }: SupplierMetrics): Float64Array {
  const counts = new Float64Array(requests.length + duration.counts.length)
  counts.set(requests)
  counts.set(duration.counts, requests.length)
  return counts
}

function modeFigures(of: ModeStats): ModeFigures {
  const { holdout, optimised } = armPairOf(of)
  const total = { bids: 0, wins: 0, margin: 0, revenue: 0 }
  for (const { bids, wins, margin, cleared } of of.arms) {
    total.bids += bids
    total.wins += wins
    total.margin += margin
    total.revenue += cleared + margin
  }
  return {
    ...total,
    optimised,
    holdout: { ...holdout },
    factors: named(factorNames, of.factors.counts),
    guards: of.guard === null ? {} : { [of.guard]: 1 },
    alarms: named(guards, of.alarms),
  }
}

/** Of the modes that are configured or have priced bids. */
function modesOf(stats: SupplierStats): SupplierFigures['modes'] {
  const used = modes.filter((mode) => stats.modes[mode].configured || stats.modes[mode].inSum > 0)
  return Object.fromEntries(used.map((mode) => [mode, modeFigures(stats.modes[mode])]))
}

/** Bids that OPD left unmodified, by reason. */
function leftOf(stats: SupplierStats): Counts {
  const left = named(responseReasons, stats.responses)
  for (const mode of modes)
    for (const [name, count] of Object.entries(named(bidReasons, stats.modes[mode].left)))
      left[name] = (left[name] ?? 0) + count
  return left
}

function endpointsOf(proxy: BidProxy, id: string) {
  const all = proxy.suppliers.get(id)?.endpoints.all ?? []
  return all.map(({ url, state, failures }) => ({
    url: url.origin + url.pathname,
    state,
    failures,
  }))
}

/** The name of this process among the nodes. */
export const newNodeName = () => `${hostname()}-${randomBytes(2).toString('hex')}`

export function createNodeFigures(deps: NodeFiguresDeps) {
  const { node, proxy, stats, counters, location, now, others, problems } = deps
  const started = now()
  let past: Mark[] = [{ at: started, counts: new Map() }]
  const mark = async () => {
    const slices = createSlices()
    const at = now()
    const taken = new Map<SupplierMetrics, Float64Array>()
    for (const { metrics } of proxy.suppliers.values()) {
      // Without requests all counts are 0, as those that are absent.
      if (metrics.requests.some((count) => count > 0)) taken.set(metrics, countsOf(metrics))
      await slices.next()
    }
    past = [...past.slice(1 - marks), { at, counts: taken }]
  }
  const timer = setInterval(() => void mark(), markEvery).unref()

  function noticesBySupplier() {
    const statuses = new Map<string, Counts>()
    for (const [key, count] of counters.impressions) {
      const [ssp = '', , status = ''] = key.split('\t')
      const of = statuses.get(ssp) ?? {}
      of[status] = (of[status] ?? 0) + count
      statuses.set(ssp, of)
    }
    return statuses
  }

  /** In time slices. */
  async function read(): Promise<NodeFigures> {
    const slices = createSlices()
    const at = now()
    const oldest = past[0]!
    const window = Math.max(1, (at - oldest.at) / 1000)
    const notices = noticesBySupplier()
    const figuresOf = (id: string): SupplierFigures => {
      const supplier = proxy.suppliers.get(id)
      const before = supplier === undefined ? undefined : oldest.counts.get(supplier.metrics)
      const requests = named(outcomes, supplier?.metrics.requests ?? [], before)
      const durations = supplier?.metrics.duration.counts ?? []
      const own = stats.suppliers.get(id)
      return {
        requests,
        durations: named(durationNames, durations, before, outcomes.length),
        rate: Object.values(requests).reduce((sum, count) => sum + count, 0) / window,
        modes: own === undefined ? {} : modesOf(own),
        left: own === undefined ? {} : leftOf(own),
        notices: notices.get(id) ?? {},
        endpoints: endpointsOf(proxy, id),
        qps: supplier === undefined ? null : nodeLoad(supplier, others()).clientQps,
      }
    }
    const ids = new Set([...proxy.suppliers.keys(), ...stats.suppliers.keys()])
    const suppliers: [id: string, SupplierFigures][] = []
    for (const id of ids) {
      suppliers.push([id, figuresOf(id)])
      await slices.next()
    }
    return {
      node,
      location,
      started,
      at,
      window,
      version: programVersion(),
      problems: problems(),
      unplaced: notices.get('') ?? {},
      suppliers: Object.fromEntries(suppliers),
    }
  }
  return { read, close: () => clearInterval(timer) }
}
