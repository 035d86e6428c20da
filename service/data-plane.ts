/** Composes store, model, engine and proxy. They open in the order of their dependencies and close in reverse. */
import { EventEmitter } from 'node:events'
import { join } from 'node:path'
import { setImmediate as yieldToLoop } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { createDirectory, type DirectorySnapshot } from '../admin/directory.ts'
import { NodeFingerprints } from '../admin/fleet/fingerprints.ts'
import { DayCaps } from '../admin/store/arm-days.ts'
import { openStore } from '../admin/store/index.ts'
import { Retention } from '../admin/store/retention.ts'
import { createDuplicateCounts, createRollup } from '../admin/store/rollup.ts'
import { oneAtATime } from '../opd/base/one-at-a-time.ts'
import type { Slices } from '../opd/base/slices.ts'
import { LocalBidLog } from '../opd/state/bid-log.ts'
import { restoreBids, spoolBids } from '../opd/state/bid-spool.ts'
import { createDecisionLog } from '../opd/state/decision-log.ts'
import { TicketKeys } from '../proxy/listen/ticket-keys.ts'
import { bidLogLimit } from '../proxy/memory-shares.ts'
import type { DirectoryState } from '../proxy/supplier.ts'
import { type ConfigRef, createBidPath, type LocationState } from './bid-path.ts'
import type { Config } from './config/schema.ts'
import type { ReferenceRules } from './config/supplier-block.ts'
import { loadOrCreateKeys } from './context-keys.ts'
import { Debugging, type LeveledLog } from './debug/debugging.ts'
import type { LoopWatch } from './debug/loop-watch.ts'
import { fingerprintReader } from './fingerprints.ts'
import { type Place, workerCount } from './limits.ts'
import { bindProcessMetrics, bindStateMetrics, lastLost } from './metrics.ts'
import { openModels } from './models.ts'
import { newNodeName } from './node-counts.ts'
import { dayCaps, opdLimits } from './opd-state.ts'
import { bindOperationMetrics } from './operation-metrics.ts'
import { ratesAge, retentionMs } from './runtime-config.ts'
import { StoredSuppliers } from './stored-suppliers.ts'
import { Tracing } from './tracing/tracing.ts'
import { Workers, withWorkers } from './workers/first-process.ts'

export type Components = Awaited<ReturnType<typeof openComponents>>

/** Milliseconds after the start; hours that passed without a node are summed then. */
const firstRetention = 5000

/** What the directory says of the suppliers at a location. `now`: milliseconds since the epoch. */
function statesIn(
  { suppliers, holds, unchecked, overrides }: DirectorySnapshot,
  location: string,
  now: number,
): Pick<LocationState, 'states' | 'holds' | 'unchecked'> {
  const states = new Map<string, DirectoryState>()
  for (const [id, { datacenters, ...seats }] of suppliers)
    states.set(id, { ...seats, allotment: datacenters.get(location) })
  for (const [id, rows] of Map.groupBy(overrides, ({ supplier }) => supplier)) {
    const state = states.get(id) ?? { inactiveSeats: new Set(), allotment: undefined }
    const decided = rows.map(
      (row) => [row.endpoint, { state: row.state, left: row.until - now }] as const,
    )
    states.set(id, { ...state, overrides: new Map(decided) })
  }
  return { states, holds, unchecked }
}

/** @param references where references of suppliers of the API lead */
export async function openComponents(
  current: ConfigRef,
  references: ReferenceRules,
  log: LeveledLog,
  watch: LoopWatch | null,
) {
  const started = current.config
  const ownKeys = started.opd.keys ?? loadOrCreateKeys(started.stateDir)
  const keysOf = (config: Config) => config.opd.keys ?? ownKeys
  const place: Place = { index: 0, count: workerCount(started.proxy) }
  /** What a component tells those that open after it. */
  const changes = new EventEmitter<{ control: []; nodes: []; health: [] }>()
  const workers = new Workers()
  const registry = new Registry()
  const tracing = new Tracing(started.location, place.index, log)
  tracing.configure(started.tracing)
  const meters = bindProcessMetrics(
    registry,
    () => ratesAge(current.config, Date.now())?.age ?? null,
    () => log.dropped ?? 0,
  )
  const store = await openStore(started.store.database, {
    now: Date.now,
    log,
    observe: meters.observeCommit,
    owns: true,
  })
  const now = store.clock
  const directory = await createDirectory(store, log)
  const stored = new StoredSuppliers(store, references, log)
  await stored.read()
  current.config = { ...started, suppliers: stored.mergedWith(started.suppliers) }
  for (const supplier of current.config.suppliers)
    if (!current.active.has(supplier.id))
      current.active.set(supplier.id, { supplier, invalid: false })
  const { contextTtl, decisionLog } = started.opd
  const bidLog = new LocalBidLog({ ttl: contextTtl, now, maxBytes: bidLogLimit() })
  const spool = join(started.stateDir, 'bid-log')
  await restoreBids(spool, bidLog, log)
  const models = await openModels({
    current,
    store,
    registry,
    processes: place.count,
    held: (since, size) => bidLog.batches(since, size),
    now,
    log,
    onControl: () => changes.emit('control'),
    onNodes: () => changes.emit('nodes'),
  })
  const { modelManager, followModelControl, redis, buses, tokens } = models
  const sink =
    decisionLog === null ? null : createDecisionLog(decisionLog, log, started.models.from !== null)
  // Everything that counts wins uses the connections of the ledger, never those of the API.
  const winStore = { ...store, db: store.wins }
  const rollup = createRollup(winStore, log)
  // Loaded only if configured.
  const events =
    started.events === null
      ? null
      : (await import('./events/index.ts')).openEvents({
          config: started.events.kafka,
          registry,
          noticesOf: (id) => current.active.get(id ?? '')?.supplier.notices ?? 'win',
          log,
        })
  const duplicates = createDuplicateCounts(winStore, log)
  const keep = () => retentionMs(current.config)
  const retention = new Retention(winStore, { keep, now, log, first: firstRetention })
  const tickets = new TicketKeys(null, Date.now())
  const bidPath = createBidPath({
    current,
    place,
    keysOf,
    now,
    log,
    engine: {
      learners: modelManager,
      bidLog,
      observer: events?.observing(rollup.bids) ?? rollup.bids,
      shared:
        place.count === 1
          ? (redis?.shared ?? null)
          : withWorkers(workers, redis?.shared ?? null, bidLog),
      sink,
    },
    proxy: {
      registry,
      sharedTokens: tokens,
      sharesPort: place.count > 1,
      tracer: tracing,
      tickets,
      others: () => workers.loads(),
      onHealth: () => changes.emit('health'),
      ...(watch === null ? {} : { onTick: (late) => watch.tick(late) }),
    },
  })
  const { engine, proxy } = bidPath
  const { reductions, rate } = engine
  const reducedToday = new DayCaps({ db: store.wins, reductions, rate, now, log })
  await reducedToday.read()
  const { ledger } = store
  const capsOfToday = () => dayCaps(engine, current.active.keys(), now())
  const lost = lastLost(store)
  const node = newNodeName()
  // Nodes publish at different times: a supplier of the API that changes every second would always differ.
  const withoutStored = (): Config => {
    const { config } = current
    return {
      ...config,
      suppliers: config.suppliers.filter((supplier) => !stored.includes(supplier)),
    }
  }
  const readFingerprints = fingerprintReader(withoutStored, () => keysOf(current.config))
  const fingerprints = new NodeFingerprints({ store, node, read: readFingerprints, now, log })
  bindStateMetrics(registry, {
    redis,
    ledger,
    outcomes: store.outcomes,
    lost,
    sink,
    stats: engine.stats,
    clockAhead: () => store.clockAhead,
    differences: () => fingerprints.differences,
    dayCaps: capsOfToday,
    nodes: () => models.nodes,
    suppliers: () => ({ ...stored.counts(), all: current.config.suppliers.length }),
  })
  const { disk } = bindOperationMetrics(registry, {
    opdLimits: () => opdLimits(engine, current.active.keys()),
    listenerTls: () => current.config.proxy.tls,
    stateDir: started.stateDir,
    connections: () => store.connections(),
    spans: tracing.counts,
    log,
  })
  const location = (): LocationState => ({
    ...statesIn(directory.snapshot(), started.location, now()),
    share: 1 / models.nodes,
    unhealthy: proxy.unhealthy(),
  })
  const applyLocation = () => {
    const state = location()
    bidPath.setLocation(state)
    workers.notifyAll('location', state)
  }
  directory.onChange(applyLocation)
  changes.on('nodes', applyLocation)
  // Many endpoints change in one turn of the event loop, such as at a reload.
  const tellHealth = oneAtATime(async () => {
    await yieldToLoop()
    if (workers.pool !== null) workers.notifyAll('health', proxy.unhealthy())
  })
  changes.on('health', () => void tellHealth())
  changes.on('control', () => workers.notifyAll('control'))
  applyLocation()
  if (buses !== null && place.count > 1)
    workers.open(place.count, {
      current,
      modelManager,
      models: buses.worker,
      tokens: tokens!,
      bidLog,
      sink,
      log,
      location,
      stats: engine.stats,
      counters: proxy.counters,
      spans: tracing.counts,
      tickets,
      keys: () => keysOf(current.config),
      shared: redis?.shared ?? null,
      addRows: rollup.addRows,
      addFacets: rollup.addFacets,
      reductions: () => [...capsOfToday()],
      clockAhead: () => store.clockAhead,
      onDecided: events?.decided ?? null,
    })

  const debug = new Debugging({
    ...{ log, pool: workers.pool, stateDir: started.stateDir },
    tools: {
      lateTurns: () => watch?.lateTurns() ?? [],
      refused: proxy.refused,
      async write(request) {
        if (watch === null) throw new Error('nothing watches this process')
        await watch.write(request)
      },
    },
  })

  return {
    registry,
    meters,
    store,
    lost,
    disk,
    directory,
    stored,
    modelManager,
    unsentDeltas: models.unsentDeltas,
    followModelControl,
    redis,
    bidLog,
    rollup,
    duplicates,
    reducedToday,
    events,
    engine,
    proxy,
    pool: workers.pool,
    tracing,
    node,
    fingerprints,
    debug,
    now,
    hasModels: () => models.joined,
    refitSeconds: () => models.refitSeconds,
    /** Applies another configuration, in time slices. */
    async configure(config: Config, slices: Slices, invalid: ReadonlySet<string>) {
      bidLog.retain(config.opd.contextTtl)
      tracing.configure(config.tracing)
      const changed = await bidPath.configure(config, slices, invalid)
      const withKeys = { ...config, opd: { ...config.opd, keys: keysOf(config) } }
      await workers.pool?.reload(withKeys, changed, invalid)
      // Workers have no result for an endpoint that was removed and added again.
      changes.emit('health')
    },
    /** Flushes and closes the components that outlive the listeners. */
    async close() {
      debug.close()
      await spoolBids(spool, bidLog, log)
      // outcomes are applied to the models, and streamed
      await store.outcomes.close()
      await models.close()
      await sink?.close()
      await events?.close()
      retention.close()
      await fingerprints.close()
      reducedToday.close()
      await duplicates.close()
      await rollup.close()
    },
  }
}
