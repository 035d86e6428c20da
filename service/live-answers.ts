/**
 * What consoles poll, what alerts compare, and what a node publishes for the others is made on a thread: figures, rows, comparisons and
 * text. The thread that carries bids copies numbers, and only that.
 */
import { conditionsOf } from '../admin/fleet/alerts.ts'
import type { SupplierFigures } from '../admin/fleet/figures.ts'
import { type FunnelDeps, funnelJson } from '../admin/fleet/funnel-route.ts'
import { comparedDays, KeptSums } from '../admin/fleet/kept-sums.ts'
import { type LiveDeps, type LiveQuestion, liveJson } from '../admin/fleet/live.ts'
import { LiveList, reused } from '../admin/fleet/live-list.ts'
import { OtherNodes, publishedLines } from '../admin/fleet/nodes.ts'
import type { ReportRules } from '../admin/reports/arms.ts'
import { type AlertChanges, alertChanges } from '../admin/store/alerts.ts'
import type { Store } from '../admin/store/index.ts'
import { StoreThread } from '../admin/store/store-thread.ts'
import { Derived } from '../opd/base/derived.ts'
import { getOrAdd } from '../opd/base/get-or-add.ts'
import type { Log } from '../opd/base/log.ts'
import type { NodeCounts } from './node-counts.ts'
import { figuresOf } from './node-figures.ts'

/** What the configuration says of suppliers. */
export interface LiveSuppliers {
  suppliers: (ReturnType<LiveDeps['suppliers']>[number] & { opd: ReturnType<LiveDeps['opd']> })[]
  rules: ReportRules
  /** Milliseconds. */
  attributionWindow: number
}

/** What operators, and guards, have decided. */
export interface LiveDecisions {
  holds: string[]
  unchecked: string[]
  /** Locations by supplier. */
  inactive: Record<string, readonly string[]>
}

/** A question of a console, or what the node itself needs: changes of its alerts, its figures for the others, and theirs. */
type LiveTask =
  | LiveQuestion
  | { call: 'alerts' }
  | { call: 'published' }
  | { call: 'endpoints'; suppliers: readonly string[] }

/** The endpoints of suppliers as another node has published them. */
export interface PublishedEndpoints {
  node: string
  endpoints: Record<string, SupplierFigures['endpoints']>
}

interface LiveJob {
  task: LiveTask
  counts: NodeCounts
  /** JSON, which is read only if it has changed: of `LiveSuppliers`, and of `LiveDecisions`. */
  suppliers: string
  decisions: string
  /** Milliseconds since the epoch, by the clock of the node and by that of all nodes. */
  now: number
  shared: number
}

interface AskDeps {
  store: Store
  counts: () => Promise<NodeCounts>
  suppliers: () => Promise<string>
  decisions: () => string
  /** Stores what this node has counted so far. */
  flush: () => Promise<unknown>
  now: () => number
  log: Log
}

/** Milliseconds for which counts are used again, and for which what was counted stays unstored. */
const [countsLast, storedLast] = [1000, 2000]

/** Asks the thread, which is started on demand. */
export class LiveThread {
  private readonly deps: AskDeps
  private readonly thread: StoreThread<LiveJob>
  private readonly counts: () => Promise<NodeCounts>
  private readonly flush: () => Promise<void>

  constructor(deps: AskDeps) {
    this.deps = deps
    const name = import.meta.url.endsWith('.ts') ? './live-thread.ts' : './live-thread.js'
    const module = new URL(name, import.meta.url)
    this.thread = new StoreThread(deps.store, { module, here: answerLive })
    this.counts = reused(deps.counts, countsLast)
    this.flush = reused(() => this.flushNow(), storedLast)
  }

  private async flushNow(): Promise<void> {
    const { flush, log } = this.deps
    try {
      await flush()
    } catch (error) {
      log.warn({ err: (error as Error).message }, 'what was counted could not be stored')
    }
  }

  readonly ask = async (task: LiveTask): Promise<Uint8Array> => {
    const { store, suppliers, decisions, now } = this.deps
    // an API client that reads everything does not poll
    const isPoll = task.call !== 'live' || task.query.ssp !== undefined
    const [known, counts] = await Promise.all([
      suppliers(),
      isPoll ? this.counts() : this.deps.counts(),
      isPoll ? this.flush() : this.flushNow(),
    ])
    return this.thread.run({
      ...{ task, counts, suppliers: known, decisions: decisions() },
      ...{ now: now(), shared: store.clock() },
    })
  }

  /** The text of an answer. */
  readonly askText = async (task: LiveTask): Promise<string> =>
    new TextDecoder().decode(await this.ask(task))

  close(): Promise<void> {
    return this.thread.close()
  }
}

function parseSuppliers(text: string) {
  const { suppliers, rules, attributionWindow } = JSON.parse(text) as LiveSuppliers
  return {
    suppliers,
    rules,
    attributionWindow,
    opd: new Map(suppliers.map(({ id, opd }) => [id, opd])),
  }
}

function parseDecisions(text: string) {
  const { holds, unchecked, inactive } = JSON.parse(text) as LiveDecisions
  const sets = { holds: new Set(holds), unchecked: new Set(unchecked) }
  return { ...sets, inactive: new Map(Object.entries(inactive)) }
}

/** The main thread, which reads the same sums for metrics, says that the store is lost. */
const silent: Log = { info() {}, warn() {}, error() {} }

type Reader = Pick<Store, 'db' | 'postgres'>

/** The side of the thread: the latest job, and what answers have in common. */
class LiveAnswers {
  private job: LiveJob
  private readonly figures = new Derived(figuresOf)
  private readonly deps: FunnelDeps
  private readonly list: LiveList
  private readonly db: Store['db']
  private readonly others: OtherNodes | null
  private readonly configured: () => ReturnType<typeof parseSuppliers>

  constructor({ db, postgres }: Reader, first: LiveJob) {
    this.job = first
    this.db = db
    const suppliers = new Derived(parseSuppliers)
    const decisions = new Derived(parseDecisions)
    const configured = () => suppliers.valueFrom(this.job.suppliers)
    this.configured = configured
    const decided = () => decisions.valueFrom(this.job.decisions)
    const now = () => this.job.now
    const others = new OtherNodes({ db, node: first.counts.node, now: () => this.job.shared })
    this.others = postgres ? others : null
    const sums = { db, flush: async () => {}, rules: () => configured().rules, now, log: silent }
    this.deps = {
      suppliers: () => configured().suppliers,
      nodes: async () => [
        await this.figures.valueFrom(this.job.counts),
        ...((await this.others?.read()) ?? []),
      ],
      kept: new KeptSums({ ...sums, days: comparedDays }),
      today: new KeptSums({ ...sums, days: 1 }),
      holds: () => decided().holds,
      unchecked: () => decided().unchecked,
      inactive: (ssp) => decided().inactive.get(ssp) ?? [],
      currency: () => configured().rules.base,
      opd: (ssp) => configured().opd.get(ssp) ?? null,
      now,
    }
    this.list = new LiveList(this.deps)
  }

  private async changesOf(now: number): Promise<AlertChanges> {
    const { attributionWindow } = this.configured()
    return alertChanges(this.db, await conditionsOf(this.deps), now, attributionWindow)
  }

  private async endpointsOf(suppliers: readonly string[]): Promise<PublishedEndpoints[]> {
    const nodes = (await this.others?.read()) ?? []
    return nodes.map(({ node, suppliers: known }) => ({
      node,
      endpoints: Object.fromEntries(suppliers.map((id) => [id, known[id]?.endpoints ?? []])),
    }))
  }

  /** Null: there is no such node. */
  async answer(job: LiveJob): Promise<string | null> {
    this.job = job
    const { task, counts } = job
    if (task.call === 'published') return publishedLines(await this.figures.valueFrom(counts))
    if (task.call === 'alerts') return JSON.stringify(await this.changesOf(job.shared))
    if (task.call === 'endpoints') return JSON.stringify(await this.endpointsOf(task.suppliers))
    if (task.call === 'list') return this.list.answer(task)
    return task.call === 'funnel' ? funnelJson(this.deps, task) : liveJson(this.deps, task)
  }
}

const answers = new WeakMap<Reader, LiveAnswers>()

/** Called on the thread: the text of one job; empty if there is no such node. */
export async function answerLive(reader: Reader, job: LiveJob): Promise<Uint8Array<ArrayBuffer>> {
  const known = getOrAdd(answers, reader, () => new LiveAnswers(reader, job))
  return new TextEncoder().encode((await known.answer(job)) ?? '')
}
