/**
 * A worker process: it serves bids with an engine and a proxy of its own. It sends its decisions and counters to the first
 * process, which has store, bid log and admin listener. It ends with the first process, however that ends.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { DecidedBids, type FacetsRow, type SeatRow } from '../../admin/store/decided.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { createSlices, drained } from '../../opd/base/slices.ts'
import type { DecisionLine, DecisionSink, SharedTokens } from '../../opd/ports.ts'
import { createBidBatch } from '../../opd/state/bid-log.ts'
import type { ModelBus } from '../../opd/state/model-bus.ts'
import type { ModelControlSource } from '../../opd/state/model-control.ts'
import { ModelManager } from '../../opd/state/model-manager.ts'
import { ModelSync } from '../../opd/state/model-sync.ts'
import { TicketKeys } from '../../proxy/listen/ticket-keys.ts'
import { activeSuppliers, type ConfigRef, createBidPath } from '../bid-path.ts'
import type { Config, SupplierConfig } from '../config/schema.ts'
import { LoopWatch } from '../debug/loop-watch.ts'
import type { WatchRequest } from '../debug/watch-messages.ts'
import type { LogLevel } from '../log/levels.ts'
import { ServiceLog } from '../log/log.ts'
import { spanResults } from '../tracing/exporter.ts'
import { Tracing } from '../tracing/tracing.ts'
import { countsTaker } from './counters.ts'
import { type Methods, Peer } from './peer.ts'
import {
  type Figures,
  type Progress,
  type ReloadMessage,
  reportEvery,
  type StartMessage,
} from './protocol.ts'

/** Milliseconds between two batches of decisions. */
const flushEvery = 10
/** Entries of the decision log that wait for a batch. Further ones are dropped. */
const maxEntries = 20_000
/** One of so many reports sends the sums by facet, which are a row for almost each bid of a report. */
const facetsOfReports = 20

/** What this worker sends to the first process: decisions, their sums, and lines of the decision log. */
class Outbox {
  readonly bids: ReturnType<typeof createBidBatch>
  readonly observer: DecidedBids
  readonly sink: DecisionSink
  private readonly peer: Peer
  /** Decisions, or lines of the decision log, that the first process did not take in time. */
  private dropped = 0
  private rows: SeatRow[] = []
  private facetRows: FacetsRow[] = []
  private entries: [DecisionLine, object][] = []

  /** @param contexts whether lines of the decision log have contexts */
  constructor(peer: Peer, contexts: boolean) {
    this.peer = peer
    this.bids = createBidBatch((batch, count) => {
      if (peer.isCongested) this.dropped += count
      else peer.notify('bids', batch)
    })
    this.observer = new DecidedBids(
      (row) => void this.rows.push(row),
      (row) => void this.facetRows.push(row),
    )
    const entry = (kind: DecisionLine) => (value: object) => {
      if (this.entries.length < maxEntries) this.entries.push([kind, value])
      else this.dropped++
    }
    this.sink = {
      contexts,
      writeDecision: entry('writeDecision'),
      writeWin: entry('writeWin'),
      writeWithdrawal: entry('writeWithdrawal'),
    }
  }

  /** Sends decisions and lines of the decision log. */
  flush(): void {
    this.bids.flush()
    if (this.entries.length === 0 || this.peer.isCongested) return
    this.peer.notify('entries', this.entries)
    this.entries = []
  }

  /** Sends everything, if `all` the sums by facet too; returns what was dropped since the last call. */
  takeAll(all: boolean): number {
    this.flush()
    drained(this.observer.drain())
    const { dropped, rows } = this
    this.rows = []
    this.dropped = 0
    if (rows.length > 0) this.peer.notify('rows', rows)
    if (all) {
      drained(this.observer.drainFacets())
      const { facetRows } = this
      this.facetRows = []
      if (facetRows.length > 0) this.peer.notify('facets', facetRows)
    }
    return dropped
  }
}

/** The models of this worker, which follow the commands that the first process has executed. */
async function openModels(peer: Peer, config: Config, now: () => number, log: ServiceLog) {
  const { role } = config.node
  const { attributionWindow } = config.opd
  const trains = role !== 'serve'
  const modelManager = new ModelManager({ dir: null, attributionWindow, now, log, trains })
  const source = peer.port<ModelControlSource>('control')
  await modelManager.execute(source)
  const bus = peer.port<ModelBus>('models')
  return {
    modelManager,
    modelSync: new ModelSync({ modelManager, bus, log, role }),
    /** The first process calls it again after the next change. */
    control: oneAtATime(() =>
      modelManager
        .execute(source)
        .catch((error: Error) =>
          log.warn({ err: error.message }, 'commands for the models were not executed'),
        ),
    ),
  }
}

/** Opens the worker; returns what the first process may call. */
async function openWorker({ place, port, ...start }: StartMessage, peer: Peer) {
  const { config } = start
  const current: ConfigRef = { config, active: activeSuppliers(config.suppliers, start.invalidOpd) }
  const { decisionLog } = config.opd
  const log = new ServiceLog(config.log.level, { worker: place.index })
  const watch = new LoopWatch(log)
  const registry = new Registry()
  const tracing = new Tracing(config.location, place.index, log)
  tracing.configure(config.tracing)
  collectDefaultMetrics({ register: registry })

  const outbox = new Outbox(peer, decisionLog?.contexts ?? false)
  let { versions, clockAhead } = start.progress
  const now = () => Date.now() + clockAhead
  const { modelManager, modelSync, control } = await openModels(peer, config, now, log)
  const bidPath = createBidPath({
    current,
    place,
    now,
    log,
    keysOf: ({ opd }) => opd.keys!,
    engine: {
      learners: {
        learnerOf: (mode) => modelManager.learnerOf(mode),
        version: (mode) => versions[mode],
        epoch: (mode) => modelManager.epoch(mode),
      },
      bidLog: outbox.bids,
      observer: outbox.observer,
      shared: null,
      sink: decisionLog === null ? null : outbox.sink,
    },
    proxy: {
      registry: new Registry(),
      sharedTokens: peer.port<SharedTokens>('tokens'),
      sharesPort: true,
      tracer: tracing,
      checksHealth: false,
      onTick: (late) => watch.tick(late),
      tickets: new TicketKeys(start.ticketSecret, Date.now()),
    },
  })
  const { engine, proxy } = bidPath
  const takeCounts = countsTaker(engine.stats, proxy.counters)

  const flush = () => outbox.flush()
  let reports = 0
  const report = (all: boolean) => {
    const dropped = outbox.takeAll(all)
    const counts = { ...takeCounts(), dropped, spans: { ...tracing.counts } }
    for (const result of spanResults) tracing.counts[result] = 0
    peer.notify('figures', { counts, load: proxy.load() } satisfies Figures)
  }
  const timers = [
    setInterval(flush, flushEvery),
    setInterval(() => report(++reports % facetsOfReports === 0), reportEvery),
  ]
  const follow = (progress: Progress) => {
    versions = progress.versions
    clockAhead = progress.clockAhead
    for (const amount of progress.reductions) engine.reductions.loadStored(amount)
  }
  const changedSuppliers = new Map<string, SupplierConfig>()
  bidPath.setLocation(start.location)
  follow(start.progress)
  while (!modelSync.joined) await pause(20)
  await proxy.listen(port)
  watch.start()

  return {
    flush,
    scrape() {
      report(true)
      return registry.getMetricsAsJSON()
    },
    location: bidPath.setLocation,
    health: proxy.setUnhealthy,
    progress: follow,
    control,
    /** Suppliers that the next reload has changed. */
    suppliers(changed: readonly SupplierConfig[]) {
      for (const supplier of changed) changedSuppliers.set(supplier.id, supplier)
    },
    async reload({ config: next, ids, invalidOpd }: ReloadMessage) {
      const known = new Map(current.config.suppliers.map((supplier) => [supplier.id, supplier]))
      const suppliers = ids.map((id) => changedSuppliers.get(id) ?? known.get(id)!)
      changedSuppliers.clear()
      tracing.configure(next.tracing)
      await bidPath.configure({ ...next, suppliers }, createSlices(), invalidOpd)
    },
    logLevel(level: LogLevel) {
      log.level = level
    },
    lateTurns: () => watch.lateTurns(),
    refused: proxy.refused,
    write: (request: WatchRequest) => watch.write(request),
    drain: () => proxy.drain(),
    destroy: () => proxy.destroy(),
    /** Resolves when all requests in flight have their responses, and the first process has everything. */
    async close() {
      await proxy.close()
      watch.stop()
      await tracing.close()
      await modelSync.close()
      await modelManager.close()
      for (const timer of timers) clearInterval(timer)
      report(true)
      // The first process kills this one then.
      log.flush()
    },
  }
}

process.title = 'bidweir worker'
// A terminal and some supervisors send signals to all processes. The first one decides.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.exit(1))

const methods: Methods = {
  async start(message: StartMessage) {
    Object.assign(methods, await openWorker(message, peer))
  },
}
const peer: Peer = new Peer(process, methods)
// From the load of this code until the end: a worker whose reports are missing is replaced.
setInterval(() => peer.notify('reported'), reportEvery)
