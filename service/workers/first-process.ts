/** The first process of a node with workers: what workers may call, and what becomes of their decisions and counters. */
import type { FacetsRow, SeatRow } from '../../admin/store/decided.ts'
import type {
  BidLog,
  DecisionLine,
  DecisionSink,
  SharedBidLog,
  SharedTokens,
} from '../../opd/ports.ts'
import type { DayAmount } from '../../opd/pricing/day-reductions.ts'
import type { EngineStats } from '../../opd/pricing/stats.ts'
import { modes } from '../../opd/shared/arms.ts'
import { recordsOf } from '../../opd/state/bid-log.ts'
import type { ModelBus } from '../../opd/state/model-bus.ts'
import type { ModelControlSource } from '../../opd/state/model-control.ts'
import type { ModelManager } from '../../opd/state/model-manager.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import type { TicketKeys } from '../../proxy/listen/ticket-keys.ts'
import type { ProcessLoad } from '../../proxy/node-load.ts'
import type { ProxyCounters } from '../../proxy/proxy.ts'
import type { ConfigRef, KeyRows, LocationState } from '../bid-path.ts'
import type { LeveledLog } from '../debug/debugging.ts'
import { type SpanCounts, spanResults } from '../tracing/exporter.ts'
import { addCounts } from './counters.ts'
import { WorkerPool } from './pool.ts'
import type { Progress } from './protocol.ts'

/**
 * The commands as the first process has executed them, and its models: a worker needs no store, and starts while the
 * store is lost.
 */
const controlOf = (modelManager: ModelManager): ModelControlSource => ({
  read: async () => modelManager.control,
  base: (mode) => modelManager.models.packed(mode),
  // Only the first process, which has the store, raises the control.
  raise: async () => {},
})

interface NodeParts {
  current: ConfigRef
  /** The context keys of the current configuration. */
  keys: () => KeyRows
  location: () => LocationState
  modelManager: ModelManager
  models: ModelBus
  tokens: SharedTokens
  bidLog: { append(batch: Buffer): void }
  /** The bid log of all nodes; null: there is none. */
  shared: SharedBidLog | null
  addRows: (rows: readonly SeatRow[]) => void
  addFacets: (rows: readonly FacetsRow[]) => void
  /** Called for each decision of a worker; null: nothing observes them. */
  onDecided: ((record: DecisionRecord) => void) | null
  /** What OPD took off today, of suppliers with a cap of a day. */
  reductions: () => DayAmount[]
  /** Milliseconds that the clock of the database is ahead of this node's. */
  clockAhead: () => number
  sink: DecisionSink | null
  stats: EngineStats
  counters: ProxyCounters
  /** Those of the workers are added. */
  spans: SpanCounts
  tickets: TicketKeys
  log: LeveledLog
}

/** The other processes of this node; none before `open`. */
export class Workers {
  private opened: WorkerPool | null = null

  get pool(): WorkerPool | null {
    return this.opened
  }

  /**
   * Creates the pool. Its processes start with `pool.start`.
   *
   * @param count processes of the node, this one included: 2 or more
   * @param parts what the workers share with this process
   */
  open(count: number, parts: NodeParts): void {
    this.opened = createPool(count, parts)
  }

  loads(): Iterable<ProcessLoad> {
    return this.opened?.loads() ?? []
  }

  /**
   * Calls a method of each worker that listens, without a response. A worker that starts later is given the state as it is then.
   *
   * @param method of those that a worker serves (`worker.ts`)
   * @param args values that can be sent to another process
   */
  notifyAll(method: string, ...args: unknown[]): void {
    this.opened?.notifyAll(method, ...args)
  }

  /** Resolves when this process has all decisions made before the call. */
  async flush(): Promise<void> {
    await this.opened?.flush()
  }
}

function createPool(count: number, parts: NodeParts): WorkerPool {
  const { current, modelManager, models, tokens, bidLog, shared, sink, onDecided } = parts
  const progress = (): Progress => ({
    versions: Object.fromEntries(
      modes.map((mode) => [mode, modelManager.version(mode)]),
    ) as Progress['versions'],
    reductions: parts.reductions(),
    clockAhead: parts.clockAhead(),
  })
  return new WorkerPool({
    count,
    progress,
    log: parts.log,
    start: () => ({
      config: {
        ...current.config,
        opd: { ...current.config.opd, keys: parts.keys() },
        log: { level: parts.log.level },
      },
      invalidOpd: new Set(
        [...current.active].filter(([, { invalid }]) => invalid).map(([id]) => id),
      ),
      location: parts.location(),
      ticketSecret: parts.tickets.secret(Date.now()),
    }),
    methods: {
      models,
      tokens,
      control: controlOf(modelManager),
      bids(batch: Buffer) {
        bidLog.append(batch)
        if (shared === null && onDecided === null) return
        for (const record of recordsOf(batch)) {
          shared?.put(record)
          onDecided?.(record)
        }
      },
      rows: parts.addRows,
      facets: parts.addFacets,
      entries(entries: [DecisionLine, never][]) {
        for (const [kind, entry] of entries) sink?.[kind](entry)
      },
    },
    onFigures({ counts }) {
      addCounts(counts, parts.stats, parts.counters)
      for (const result of spanResults) parts.spans[result] += counts.spans[result]
    },
  })
}

/**
 * A bid log that first waits for the decisions of the workers, then asks the other nodes.
 *
 * @param workers whose decisions are waited for
 * @param shared the bid log of all nodes; null: there is none
 * @param local the bid log of this process, which has the decisions of its workers
 * @returns a log whose `find` is null if the shared log cannot be asked
 */
export const withWorkers = (
  workers: Pick<Workers, 'flush'>,
  shared: SharedBidLog | null,
  local: BidLog,
): SharedBidLog => ({
  put: (record) => shared?.put(record),
  async find(bidId) {
    const [elsewhere = []] = await Promise.all([shared?.find(bidId), workers.flush()])
    return elsewhere === null ? null : [...local.find(bidId), ...elsewhere]
  },
  async written() {
    await shared?.written()
  },
})
