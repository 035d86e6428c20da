/** The first process of a node with workers: what it shares with them, and what it does with what they send. */
import type { Directory } from '../../admin/directory.ts'
import type { SeatRow } from '../../admin/store/decided-rows.ts'
import type { DayAmount } from '../../opd/engine/day-reductions.ts'
import type { EngineStats } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import type { BidLog, DecisionSink, SharedBidLog, SharedTokens } from '../../opd/ports.ts'
import { type Mode, modes } from '../../opd/pricing/arms.ts'
import type { Log } from '../../opd/shared/log.ts'
import { recordsOf } from '../../opd/state/bid-entry.ts'
import type { ModelControlSource } from '../../opd/state/model-control.ts'
import type { ModelManager } from '../../opd/state/model-manager.ts'
import type { ModelBus } from '../../opd/state/shared-model.ts'
import type { BidProxy, DirectoryState } from '../../proxy/proxy.ts'
import type { ConfigRef } from '../apply-config.ts'
import { addCounts } from './counters.ts'
import { served } from './peer.ts'
import { createWorkerPool, type WorkerPool } from './pool.ts'
import { busMethods, controlMethods, type DirectoryMessage, tokenMethods } from './protocol.ts'

/** Milliseconds between two looks at the versions of the models. */
const versionsEvery = 1000
/** The same for what OPD took off: a cap may be exceeded by what wins in this time. */
const reductionsEvery = 100

/** Sends a value to all workers whenever it has changed. */
function tellChanges(pool: WorkerPool, method: string, read: () => unknown, every: number) {
  let sent = JSON.stringify(read())
  return setInterval(() => {
    const value = read()
    const text = JSON.stringify(value)
    if (text === sent) return
    sent = text
    pool.tellAll(method, value)
  }, every).unref()
}

/**
 * The commands as the first process has executed them, and its models: a worker needs no store, and starts while the
 * store is lost.
 */
const controlOf = (modelManager: ModelManager): ModelControlSource => ({
  read: async () => modelManager.control,
  base: (mode) => modelManager.models.packed(mode),
  // The first process does that.
  raise: async () => {},
})

interface NodeParts {
  current: ConfigRef
  /** The context keys of a configuration. */
  keysOf: () => { id: number; secret: string }[]
  directory: () => DirectoryMessage
  modelManager: ModelManager
  models: ModelBus
  tokens: SharedTokens
  bidLog: { append(batch: Buffer): void }
  /** The bid log of all nodes; null: there is none. */
  shared: SharedBidLog | null
  addRows: (rows: readonly SeatRow[]) => void
  /** Called for each decision of a worker; null: nothing observes them. */
  onDecided: ((record: DecisionRecord) => void) | null
  /** What OPD took off today, of suppliers with a cap of a day. */
  reductions: () => DayAmount[]
  sink: DecisionSink | null
  stats: EngineStats
  proxy: () => BidProxy
  log: Log
}

export function openWorkers(count: number, parts: NodeParts): WorkerPool {
  const { current, modelManager, models, tokens, bidLog, shared, sink, onDecided } = parts
  const versionsNow = () =>
    Object.fromEntries(modes.map((mode) => [mode, modelManager.version(mode)])) as Record<
      Mode,
      number
    >
  const pool = createWorkerPool({
    count,
    start: () => ({
      config: { ...current.config, opd: { ...current.config.opd, keys: parts.keysOf() } },
      invalidOpd: new Set(
        [...current.active].filter(([, { invalid }]) => invalid).map(([id]) => id),
      ),
      directory: parts.directory(),
      versions: versionsNow(),
      reductions: parts.reductions(),
    }),
    methods: {
      ...served('models', models, busMethods),
      ...served('tokens', tokens, tokenMethods),
      ...served('control', controlOf(modelManager), controlMethods),
      bids(batch: Buffer) {
        bidLog.append(batch)
        if (shared === null && onDecided === null) return
        for (const record of recordsOf(batch)) {
          shared?.put(record)
          onDecided?.(record)
        }
      },
      rows: parts.addRows,
      entries(entries: [keyof DecisionSink, never][]) {
        for (const [kind, entry] of entries) sink?.[kind](entry)
      },
    },
    onFigures: ({ counts }) => addCounts(counts, parts.stats, parts.proxy().counters),
    log: parts.log,
  })
  const following = [
    tellChanges(pool, 'versions', versionsNow, versionsEvery),
    tellChanges(pool, 'reductions', parts.reductions, reductionsEvery),
  ]
  return {
    ...pool,
    get missing() {
      return pool.missing
    },
    close() {
      for (const timer of following) clearInterval(timer)
      return pool.close()
    },
  }
}

/** A bid log that first waits for the decisions of the workers, then asks the other nodes. */
export const withWorkers = (
  pool: () => WorkerPool,
  shared: SharedBidLog | null,
  own: BidLog,
): SharedBidLog => ({
  put: (record) => shared?.put(record),
  async find(bidId) {
    const [elsewhere = []] = await Promise.all([shared?.find(bidId), pool().flush()])
    return [...own.find(bidId), ...elsewhere]
  },
})

/** The directory's state of each supplier at a location. */
export function statesAt(directory: Directory, location: string): Map<string, DirectoryState> {
  const states = new Map<string, DirectoryState>()
  for (const [id, { inactiveSeats, datacenters }] of directory.snapshot().suppliers)
    states.set(id, { inactiveSeats, allotment: datacenters.get(location) })
  return states
}
