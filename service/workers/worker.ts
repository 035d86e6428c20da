/** A worker: engine and proxy of one process. What it decides and counts goes to the first process, which has the rest. */
import { setTimeout as pause } from 'node:timers/promises'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { createDecidedRows, type SeatRow } from '../../admin/store/decided-rows.ts'
import type { DayAmount } from '../../opd/engine/day-reductions.ts'
import { createEngine } from '../../opd/engine/engine.ts'
import type { DecisionSink, SharedTokens } from '../../opd/ports.ts'
import type { Mode } from '../../opd/pricing/arms.ts'
import { trainedPerSecond } from '../../opd/pricing/exposures.ts'
import { oneAtATime } from '../../opd/shared/one-at-a-time.ts'
import { createSlices } from '../../opd/shared/slices.ts'
import { createBidBatch } from '../../opd/state/bid-entry.ts'
import type { ModelControlSource } from '../../opd/state/model-control.ts'
import { createModelManager } from '../../opd/state/model-manager.ts'
import { createModelSync } from '../../opd/state/model-sync.ts'
import type { ModelBus } from '../../opd/state/shared-model.ts'
import { createProxy } from '../../proxy/proxy.ts'
import { applyConfig, type ConfigRef } from '../apply-config.ts'
import type { SupplierConfig } from '../config/schema.ts'
import { createLog } from '../log.ts'
import { contextKeys, engineSettings, integrationOf, routeOf } from '../runtime-config.ts'
import { activeSuppliers } from '../supplier-swap.ts'
import { createTracing } from '../tracing.ts'
import { countsTaker } from './counters.ts'
import { dividedConfig, dividedRoute } from './limits.ts'
import type { Peer } from './peer.ts'
import {
  busMethods,
  controlMethods,
  type DirectoryMessage,
  type Figures,
  type ReloadMessage,
  type StartMessage,
  tokenMethods,
} from './protocol.ts'

/** Milliseconds between two batches of decisions, and between two reports of counters. */
const flushEvery = 10
const reportEvery = 250
/** Entries of the decision log that wait for a batch. Further ones are dropped. */
const maxEntries = 20_000

export type Worker = Awaited<ReturnType<typeof openWorker>>

export async function openWorker(start: StartMessage, peer: Peer) {
  const { place, port, invalidOpd } = start
  let { config } = start
  const current: ConfigRef = { config, active: activeSuppliers(config.suppliers, invalidOpd) }
  const { attributionWindow, decisionLog } = config.opd
  const log = createLog(config.log.level, { worker: place.index })
  const now = Date.now
  const registry = new Registry()
  const tracing = createTracing(log)
  collectDefaultMetrics({ register: registry })
  const versions = { ...start.versions }

  /** Decisions, or lines of the decision log, that the first process did not take in time. */
  let dropped = 0
  const bids = createBidBatch((entries, count) => {
    if (peer.isCongested) dropped += count
    else peer.tell('bids', entries)
  })
  let rows: SeatRow[] = []
  const decided = createDecidedRows((row) => void rows.push(row))
  let entries: [keyof DecisionSink, object][] = []
  const entry = (kind: keyof DecisionSink) => (of: object) => {
    if (entries.length < maxEntries) entries.push([kind, of])
    else dropped++
  }
  const sink: DecisionSink = {
    decided: entry('decided'),
    won: entry('won'),
    withdrawn: entry('withdrawn'),
  }

  const modelManager = createModelManager({
    ...{ dir: null, attributionWindow, now, log },
    trains: config.node.role !== 'serve',
  })
  const control = peer.port<ModelControlSource>('control', controlMethods)
  await modelManager.execute(control)
  const followModelControl = oneAtATime(() =>
    // It fails only if the first process has ended.
    modelManager.execute(control).catch(() => undefined),
  )
  const bus = peer.port<ModelBus>('models', busMethods)
  const modelSync = createModelSync({ modelManager, bus, log, role: config.node.role })
  const keysOf = () => contextKeys(config.opd.keys!)
  const engine = createEngine(
    {
      ...engineSettings(config, keysOf(), attributionWindow),
      integrations: [...current.active.values()].map(({ supplier, invalid }) =>
        integrationOf(supplier, invalid),
      ),
    },
    {
      learners: { of: modelManager.of, version: (mode) => versions[mode] },
      bidLog: bids,
      observer: decided,
      shared: null,
      sink: decisionLog === null ? null : sink,
      log,
      now,
      random: Math.random,
      trainedPerSecond: trainedPerSecond / place.count,
    },
  )
  const proxy = createProxy(
    dividedConfig(config.proxy, place),
    config.suppliers.map((supplier) => dividedRoute(routeOf(supplier), place)),
    {
      ...{ engine, registry: new Registry(), log },
      sharedTokens: peer.port<SharedTokens>('tokens', tokenMethods),
      sharesPort: true,
      tracer: tracing,
    },
  )
  const takeCounts = countsTaker(engine.stats, proxy.counters)

  const flush = () => {
    bids.flush()
    if (entries.length === 0 || peer.isCongested) return
    peer.tell('entries', entries)
    entries = []
  }
  const report = () => {
    flush()
    decided.drain()
    const taken = rows
    rows = []
    if (taken.length > 0) peer.tell('rows', taken)
    const counts = { ...takeCounts(), dropped }
    dropped = 0
    peer.tell('figures', { counts, load: proxy.load() } satisfies Figures)
  }
  const timers = [setInterval(flush, flushEvery), setInterval(report, reportEvery)]
  const applyDirectory = ({ states, holds, share }: DirectoryMessage) => {
    engine.setHolds(holds)
    proxy.setDirectory((id) => states.get(id), share / place.count)
  }
  // Notices come to the first process: it counts what OPD took off.
  const setReductions = (amounts: readonly DayAmount[]) => {
    for (const amount of amounts) engine.reductions.load(amount)
  }
  const changedSuppliers = new Map<string, SupplierConfig>()
  applyDirectory(start.directory)
  setReductions(start.reductions)
  while (!modelSync.joined) await pause(20)
  await proxy.listen(port)

  return {
    flush,
    report,
    applyDirectory,
    processMetrics: () => registry.getMetricsAsJSON(),
    followModelControl,
    setReductions,
    setVersions: (next: Record<Mode, number>) => void Object.assign(versions, next),
    /** Suppliers that the next reload has changed. */
    takeSuppliers(changed: readonly SupplierConfig[]) {
      for (const supplier of changed) changedSuppliers.set(supplier.id, supplier)
    },
    async reload({ config: next, ids }: ReloadMessage) {
      const known = new Map(config.suppliers.map((supplier) => [supplier.id, supplier]))
      const suppliers = ids.map((id) => changedSuppliers.get(id) ?? known.get(id)!)
      changedSuppliers.clear()
      config = { ...next, suppliers }
      const targets = { engine, proxy, place, attributionWindow }
      await applyConfig(current, config, keysOf(), targets, createSlices())
    },
    drain: () => proxy.drain(),
    destroy: () => proxy.destroy(),
    /** Resolves when all requests in flight have their responses, and the first process has everything. */
    async close() {
      await proxy.close()
      for (const timer of timers) clearInterval(timer)
      await modelSync.close()
      await modelManager.close()
      report()
      await tracing?.flush()
    },
  }
}
