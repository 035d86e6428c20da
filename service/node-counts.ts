/**
 * What this node has counted: numbers that are copied from the counters of proxy, engine and notices. Everything that is made of
 * them for the console is made on another thread (node-figures.ts).
 */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { NodeFigures, NodeProblem, SupplierFigures } from '../admin/fleet/figures.ts'
import { programVersion } from '../admin/http/version.ts'
import type { ImpressionCounters, SupplierMoney } from '../admin/impressions/counters.ts'
import { armPairOf } from '../admin/metrics/comparison.ts'
import { getOrAdd } from '../opd/base/get-or-add.ts'
import { createSlices } from '../opd/base/slices.ts'
import {
  ArmSums,
  type EngineStats,
  factorBounds,
  type ModeStats,
  SupplierStats,
} from '../opd/pricing/stats.ts'
import { guards, modes } from '../opd/shared/arms.ts'
import { bidReasons, responseReasons } from '../opd/shared/reasons.ts'
import { bounds, outcomes, type VariantMetrics } from '../proxy/metrics.ts'
import { type ProcessLoad, qpsOf } from '../proxy/node-load.ts'
import type { BidProxy } from '../proxy/proxy.ts'

interface NodeCountsDeps {
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

export const statuses = ['attributed', 'unattributed', 'duplicate', 'ignored', 'rejected'] as const
const noMacroAt = bidReasons.indexOf('no_macro')

/**
 * The totals of a supplier since the start of the node, of which the last minutes are shown:
 *
 *   [ requests by outcome | durations | notices by status | decided, noMacro, cleared, clearedLow, left ]
 */
const durationsAt = outcomes.length
const statusesAt = durationsAt + bounds.length + 1
const bidsAt = statusesAt + statuses.length
const totalCount = bidsAt + 5

function requestsIn(totals: Float64Array): number {
  let sum = 0
  for (let index = 0; index < outcomes.length; index++) sum += totals[index]!
  return sum
}

function decidedIn(stats: SupplierStats | undefined): number {
  let bids = 0
  for (const mode of modes) for (const arm of stats?.modes[mode].arms ?? []) bids += arm.bids
  return bids
}

export const armFields = Object.keys(new ArmSums()) as (keyof ArmSums)[]
const modeWidth =
  6 + bidReasons.length + 2 * armFields.length + factorBounds.length + 1 + guards.length
const width = totalCount + statuses.length + 2 + responseReasons.length + modes.length * modeWidth

export type VariantCounts = Pick<VariantMetrics, 'requests' | 'bids' | 'prices'> & {
  durations: Float64Array
}

/** What a thread needs to make figures of a node. */
export interface NodeCounts extends Omit<NodeFigures, 'suppliers'> {
  ids: string[]
  /** As many for each of `ids`. */
  numbers: Float64Array
  endpoints: SupplierFigures['endpoints'][]
  /** Of suppliers with a canary. */
  variants: Map<string, Record<'main' | 'canary', VariantCounts>>
}

/** Numbers one after the other. */
class Packer {
  readonly numbers: Float64Array
  private next = 0

  constructor(count: number) {
    // shared, so that a message to a thread does not copy them again
    this.numbers = new Float64Array(new SharedArrayBuffer(8 * count))
  }

  put(value: number): void {
    this.numbers[this.next++] = value
  }

  putAll(values: ArrayLike<number>): void {
    for (let index = 0; index < values.length; index++) this.numbers[this.next++] = values[index]!
  }
}

/** Of a supplier without decisions. */
const noStats = new SupplierStats()

/** In the order in which `modeFigures` reads them. */
function packMode(packer: Packer, stats: ModeStats): void {
  packer.put(stats.configured || stats.inSum > 0 ? 1 : 0)
  packer.putAll(stats.left)
  const total = { bids: 0, wins: 0, margin: 0, revenue: 0 }
  for (const { bids, wins, margin, cleared } of stats.arms) {
    total.bids += bids
    total.wins += wins
    total.margin += margin
    total.revenue += cleared + margin
  }
  packer.put(total.bids)
  packer.put(total.wins)
  packer.put(total.margin)
  packer.put(total.revenue)
  const { optimised, holdout } = armPairOf(stats)
  for (const field of armFields) packer.put(optimised[field])
  for (const field of armFields) packer.put(holdout[field])
  packer.putAll(stats.factors.counts)
  packer.put(stats.guard === null ? -1 : guards.indexOf(stats.guard))
  packer.putAll(stats.alarms)
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

export class NodeCountsReader {
  private readonly deps: NodeCountsDeps
  private readonly started: number
  private past: Mark[]
  private readonly awaited: AwaitedBids
  private readonly timer: NodeJS.Timeout

  constructor(deps: NodeCountsDeps) {
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

  /**
   * The endpoints of a supplier with their states; empty: it has none.
   *
   * @param id of the supplier
   */
  endpointsOf(id: string): SupplierFigures['endpoints'] {
    return endpointsOf(this.deps.proxy, id, this.deps.now() - performance.now())
  }

  private async mark(): Promise<void> {
    const slices = createSlices()
    const time = this.deps.now()
    const totals = new Map<string, Float64Array>()
    const [notices, money] = [this.noticesBySupplier(), this.moneyBySupplier()]
    let requests = 0
    for (const id of this.ids()) {
      const all = this.totalsOf(id, notices, money)
      requests += requestsIn(all)
      if (all.some((count) => count > 0)) totals.set(id, all)
      this.awaited.count(id, all[bidsAt]!, time)
      await slices.next()
    }
    this.past = [
      ...this.past.slice(1 - marks),
      { time, requests, totals, notices: this.noticeTotals(notices) },
    ]
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
    totals[bidsAt] = decidedIn(supplierStats)
    totals[bidsAt + 1] = supplierStats?.bidsWithoutMacro ?? 0
    for (const { priced, low } of paid) {
      totals[bidsAt + 2]! += priced
      totals[bidsAt + 3]! += low
    }
    if (supplierStats === undefined) return totals
    for (const mode of modes)
      for (let index = 0; index < bidReasons.length; index++)
        totals[bidsAt + (index === noMacroAt ? 1 : 4)]! += supplierStats.modes[mode].left[index]!
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
  private idleSince(requests: number, time: number): number {
    return this.past.find((mark) => mark.requests === requests)?.time ?? time
  }

  private variantCounts(ids: readonly string[]): NodeCounts['variants'] {
    const counted = ({ requests, upstream, bids, prices }: VariantMetrics): VariantCounts => ({
      ...{ requests, durations: upstream.classic, bids, prices },
    })
    const found: NodeCounts['variants'] = new Map()
    for (const id of ids) {
      const variants = this.deps.proxy.suppliers.get(id)?.metrics.variants
      if (variants == null) continue
      found.set(id, { main: counted(variants.main), canary: counted(variants.canary) })
    }
    return found
  }

  /** In time slices: numbers are copied, and nothing is made of them. */
  async read(): Promise<NodeCounts> {
    const { node, location, problems, proxy, stats, others } = this.deps
    const slices = createSlices()
    const time = this.deps.now()
    const oldest = this.past[0]!
    const [notices, money] = [this.noticesBySupplier(), this.moneyBySupplier()]
    const ids = [...this.ids()]
    const packer = new Packer(ids.length * width)
    const endpoints: NodeCounts['endpoints'] = []
    let requests = 0
    for (const id of ids) {
      const totals = this.totalsOf(id, notices, money)
      requests += requestsIn(totals)
      const supplier = proxy.suppliers.get(id)
      const supplierStats = stats.suppliers.get(id) ?? noStats
      packer.put(this.awaited.count(id, totals[bidsAt]!, time))
      packer.put((supplier && qpsOf(supplier, others())) ?? Number.NaN)
      packer.putAll(totals.subarray(statusesAt, statusesAt + statuses.length))
      const before = oldest.totals.get(id)
      if (before !== undefined)
        for (let index = 0; index < totalCount; index++) totals[index]! -= before[index]!
      packer.putAll(totals)
      packer.putAll(supplierStats.responses)
      for (const mode of modes) packMode(packer, supplierStats.modes[mode])
      endpoints.push(this.endpointsOf(id))
      await slices.next()
    }
    return {
      ...{ node, location, started: this.started, at: time, version: programVersion() },
      window: Math.max(1, (time - oldest.time) / 1000),
      problems: [...problems(), ...noticeProblems(this.noticeTotals(notices), oldest.notices)],
      idle: this.deps.takesBids() ? (time - this.idleSince(requests, time)) / 1000 : null,
      unplaced: notices.get('') ?? {},
      ...{ ids, numbers: packer.numbers, endpoints, variants: this.variantCounts(ids) },
    }
  }
}
