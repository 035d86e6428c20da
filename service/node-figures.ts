/** The figures of this node for the console, from the counters of proxy, engine and notices. */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type {
  FunnelFigures,
  ModeFigures,
  NodeFigures,
  NodeProblem,
  SupplierFigures,
  VariantFigures,
} from '../admin/fleet/figures.ts'
import { programVersion } from '../admin/http/version.ts'
import type { ImpressionCounters, SupplierMoney } from '../admin/impressions/counters.ts'
import { armPairOf } from '../admin/metrics/comparison.ts'
import { getOrAdd } from '../opd/base/get-or-add.ts'
import { createSlices } from '../opd/base/slices.ts'
import {
  type EngineStats,
  factorBounds,
  type ModeStats,
  type SupplierStats,
} from '../opd/pricing/stats.ts'
import { guards, modes } from '../opd/shared/arms.ts'
import { bidReasons, responseReasons } from '../opd/shared/reasons.ts'
import { bounds, outcomes, type SupplierMetrics, type VariantMetrics } from '../proxy/metrics.ts'
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
  /** false: the node only trains. */
  takesBids: () => boolean
  /** Milliseconds. */
  attributionWindow: () => number
}

/** The last minutes are the time since the oldest mark. */
const markEvery = 30_000
const marks = 10

/** Milliseconds after which a bid that was won has a notice: three attribution windows, but at most a minute. */
const noticeTime = (attributionWindow: number) => Math.min(3 * attributionWindow, 60_000)

type Counts = Record<string, number>

interface Mark {
  time: number
  /** Bid requests of all suppliers. */
  requests: number
  /** By supplier, if it has had any. */
  totals: Map<string, Float64Array>
  notices: NoticeTotals
}

/** Notices of the node, and those of them that were refused and name no supplier. */
interface NoticeTotals {
  received: number
  refused: number
}

const durationNames = [...bounds, Number.POSITIVE_INFINITY]
const factorNames = [...factorBounds, Number.POSITIVE_INFINITY]
const statuses = ['attributed', 'unattributed', 'duplicate', 'ignored', 'rejected'] as const
const noMacroAt = bidReasons.indexOf('no_macro')

/**
 * The totals of a supplier since the start of the node, of which the last minutes are shown:
 *
 *   [ requests by outcome | durations | notices by status | decided, noMacro, cleared, clearedLow, left ]
 */
const durationsAt = outcomes.length
const statusesAt = durationsAt + durationNames.length
const bidsAt = statusesAt + statuses.length
const totalCount = bidsAt + 5

/** The positive entries, by name. `offset`: where they begin in both lists. */
function named(
  names: readonly (string | number)[],
  counts: ArrayLike<number>,
  before?: Float64Array,
  offset = 0,
): Counts {
  const result: Counts = {}
  // without an iterator of entries: the console reads this for each supplier at each poll
  for (let index = 0; index < names.length; index++) {
    const count = counts[offset + index]! - (before?.[offset + index] ?? 0)
    if (count > 0) result[names[index]!] = count
  }
  return result
}

const decidedIn = (stats: SupplierStats | undefined): number =>
  modes.reduce(
    (sum, mode) => (stats?.modes[mode].arms ?? []).reduce((all, { bids }) => all + bids, sum),
    0,
  )

function funnelOf(totals: Float64Array, before?: Float64Array): FunnelFigures {
  const since = (offset: number) =>
    Math.max(0, totals[bidsAt + offset]! - (before?.[bidsAt + offset] ?? 0))
  return {
    decided: since(0),
    noMacro: since(1),
    notices: named(statuses, totals, before, statusesAt),
    cleared: since(2),
    clearedLow: since(3),
    left: since(4),
  }
}

function modeFigures(stats: ModeStats): ModeFigures {
  const { holdout, optimised } = armPairOf(stats)
  const total = { bids: 0, wins: 0, margin: 0, revenue: 0 }
  for (const { bids, wins, margin, cleared } of stats.arms) {
    total.bids += bids
    total.wins += wins
    total.margin += margin
    total.revenue += cleared + margin
  }
  return {
    ...total,
    optimised,
    holdout: { ...holdout },
    factors: named(factorNames, stats.factors.counts),
    guards: stats.guard === null ? {} : { [stats.guard]: 1 },
    alarms: named(guards, stats.alarms),
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

const variantOf = ({ requests, upstream, bids, prices }: VariantMetrics): VariantFigures => ({
  requests: named(outcomes, requests),
  durations: named(durationNames, upstream.classic),
  ...{ bids, prices },
})

function variantsOf(metrics: SupplierMetrics | undefined): Pick<SupplierFigures, 'variants'> {
  const variants = metrics?.variants
  if (variants == null) return {}
  return { variants: { main: variantOf(variants.main), canary: variantOf(variants.canary) } }
}

/** Those that are up have the least: thousands of them are published. `ahead`: what the epoch is ahead of `performance.now()`. */
function endpointsOf(proxy: BidProxy, id: string, ahead: number): SupplierFigures['endpoints'] {
  const supplier = proxy.suppliers.get(id)
  supplier?.endpoints.refresh()
  supplier?.canary?.endpoints.refresh()
  return (supplier?.everyEndpoint() ?? []).map((endpoint) => {
    const { name, state, failures, inFlight, changedAt, lastFailure } = endpoint
    const { reason, nextTry } = endpoint.outage
    return {
      ...{ url: name, state, failures, inFlight },
      ...(supplier?.canary?.endpoints.all.includes(endpoint) === true ? { canary: true } : {}),
      ...(reason === null ? {} : { reason }),
      ...(nextTry === null ? {} : { nextTry: Math.round(nextTry + ahead) }),
      ...(changedAt === 0 ? {} : { since: Math.round(changedAt + ahead) }),
      ...(lastFailure === null
        ? {}
        : { lastError: { text: lastFailure.text, at: Math.round(lastFailure.time + ahead) } }),
    }
  })
}

/** The name of this process among the nodes. */
export const newNodeName = () => `${hostname()}-${randomBytes(2).toString('hex')}`

/** Notices of the last minutes from which their shares say anything, and the share of refused ones that is a warning. */
const [fewestNotices, refusedShare] = [20, 0.1]

/** Refused notices without a supplier are shown on no supplier's page. */
function noticeProblems(now: NoticeTotals, before: NoticeTotals): NodeProblem[] {
  const received = now.received - before.received
  const refused = now.refused - before.refused
  if (received < fewestNotices || refused / received <= refusedShare) return []
  const text =
    'more than 10% of the win notices of the last minutes are refused and name no supplier; their wins are not counted: check that they carry svc_opd or a valid token'
  return [{ rule: 'notices_refused', level: 'warn', text }]
}

/**
 * How many bids of each supplier were decided long enough ago to have notices by now. Two numbers a supplier: the count that is
 * old enough, and a later one that will be.
 */
class AwaitedBids {
  private readonly bySupplier = new Map<string, { old: number; next: number; time: number }>()
  private readonly time: () => number

  /** `time`: milliseconds until a bid is old enough. */
  constructor(time: () => number) {
    this.time = time
  }

  count(supplier: string, decided: number, now: number): number {
    if (decided === 0) return 0
    const known = getOrAdd(this.bySupplier, supplier, () => ({ old: 0, next: decided, time: now }))
    if (now - known.time >= this.time()) {
      known.old = known.next
      known.next = decided
      known.time = now
    }
    return known.old
  }
}

export class NodeFiguresReader {
  private readonly deps: NodeFiguresDeps
  private readonly started: number
  private past: Mark[]
  private readonly awaited: AwaitedBids
  private readonly timer: NodeJS.Timeout

  constructor(deps: NodeFiguresDeps) {
    this.deps = deps
    this.started = deps.now()
    const notices = { received: 0, refused: 0 }
    this.past = [{ time: this.started, requests: 0, totals: new Map(), notices }]
    this.awaited = new AwaitedBids(() => noticeTime(deps.attributionWindow()))
    this.timer = setInterval(() => void this.mark(), markEvery).unref()
  }

  close(): void {
    clearInterval(this.timer)
  }

  private async mark(): Promise<void> {
    const slices = createSlices()
    const time = this.deps.now()
    const totals = new Map<string, Float64Array>()
    const [notices, money] = [this.noticesBySupplier(), this.moneyBySupplier()]
    for (const id of this.ids()) {
      const all = this.totalsOf(id, notices, money)
      if (all.some((count) => count > 0)) totals.set(id, all)
      this.awaited.count(id, all[bidsAt]!, time)
      await slices.next()
    }
    const requests = this.requestTotal()
    this.past = [
      ...this.past.slice(1 - marks),
      { time, requests, totals, notices: this.noticeTotals(notices) },
    ]
  }

  private requestTotal(): number {
    let sum = 0
    for (const { metrics } of this.deps.proxy.suppliers.values())
      for (const count of metrics.requests) sum += count
    return sum
  }

  private totalsOf(
    id: string,
    notices: Map<string, Counts>,
    money: Map<string, SupplierMoney[]>,
  ): Float64Array {
    const totals = new Float64Array(totalCount)
    const metrics = this.deps.proxy.suppliers.get(id)?.metrics
    if (metrics !== undefined) {
      totals.set(metrics.requests)
      totals.set(metrics.upstream.classic, durationsAt)
    }
    const reported = notices.get(id) ?? {}
    for (let index = 0; index < statuses.length; index++)
      totals[statusesAt + index] = reported[statuses[index]!] ?? 0
    const supplierStats = this.deps.stats.suppliers.get(id)
    const paid = money.get(id) ?? []
    const bare = modes.map((mode) => supplierStats?.modes[mode].left[noMacroAt] ?? 0)
    const allBare = bare.reduce((sum, count) => sum + count, 0)
    let left = -allBare
    for (const mode of modes)
      for (const count of supplierStats?.modes[mode].left ?? []) left += count
    totals.set(
      [
        decidedIn(supplierStats),
        allBare + (supplierStats?.bidsWithoutMacro ?? 0),
        paid.reduce((sum, { priced }) => sum + priced, 0),
        paid.reduce((sum, { low }) => sum + low, 0),
        left,
      ],
      bidsAt,
    )
    return totals
  }

  /** Those with traffic or decisions of this node. */
  private ids(): Set<string> {
    return new Set([...this.deps.proxy.suppliers.keys(), ...this.deps.stats.suppliers.keys()])
  }

  private noticeTotals(notices: Map<string, Counts>): NoticeTotals {
    return {
      received: this.deps.counters.received,
      refused: notices.get('')?.['rejected'] ?? 0,
    }
  }

  private moneyBySupplier() {
    const found = new Map<string, SupplierMoney[]>()
    for (const [key, money] of this.deps.counters.money) {
      const [ssp = ''] = key.split('\t')
      getOrAdd(found, ssp, (): SupplierMoney[] => []).push(money)
    }
    return found
  }

  private noticesBySupplier() {
    const statuses = new Map<string, Counts>()
    for (const [key, count] of this.deps.counters.impressions) {
      const [ssp = '', , status = ''] = key.split('\t')
      const counts = statuses.get(ssp) ?? {}
      counts[status] = (counts[status] ?? 0) + count
      statuses.set(ssp, counts)
    }
    return statuses
  }

  /** The oldest mark since which no request has come. */
  private idleSince(time: number): number {
    const requests = this.requestTotal()
    return this.past.find((mark) => mark.requests === requests)?.time ?? time
  }

  /** In time slices. */
  async read(): Promise<NodeFigures> {
    const { node, location, problems } = this.deps
    const slices = createSlices()
    const time = this.deps.now()
    const oldest = this.past[0]!
    const window = Math.max(1, (time - oldest.time) / 1000)
    const [notices, money] = [this.noticesBySupplier(), this.moneyBySupplier()]
    const figuresOf = (id: string): SupplierFigures => {
      const supplier = this.deps.proxy.suppliers.get(id)
      const before = oldest.totals.get(id)
      const totals = this.totalsOf(id, notices, money)
      const requests = named(outcomes, totals, before)
      const supplierStats = this.deps.stats.suppliers.get(id)
      return {
        requests,
        durations: named(durationNames, totals, before, durationsAt),
        funnel: funnelOf(totals, before),
        awaited: this.awaited.count(id, totals[bidsAt]!, time),
        rate: Object.values(requests).reduce((sum, count) => sum + count, 0) / window,
        modes: supplierStats === undefined ? {} : modesOf(supplierStats),
        left: supplierStats === undefined ? {} : leftOf(supplierStats),
        notices: notices.get(id) ?? {},
        endpoints: endpointsOf(this.deps.proxy, id, time - performance.now()),
        ...variantsOf(supplier?.metrics),
        qps: supplier === undefined ? null : nodeLoad(supplier, this.deps.others()).clientQps,
      }
    }
    const suppliers: [id: string, SupplierFigures][] = []
    for (const id of this.ids()) {
      suppliers.push([id, figuresOf(id)])
      await slices.next()
    }
    return {
      node,
      location,
      started: this.started,
      at: time,
      window,
      version: programVersion(),
      problems: [...problems(), ...noticeProblems(this.noticeTotals(notices), oldest.notices)],
      idle: this.deps.takesBids() ? (time - this.idleSince(time)) / 1000 : null,
      unplaced: notices.get('') ?? {},
      suppliers: Object.fromEntries(suppliers),
    }
  }
}
