/** Composes store, model, engine and proxy. They open in the order of their dependencies and close in reverse. */
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { createDirectory } from '../admin/directory.ts'
import { openStore } from '../admin/store/index.ts'
import { modelControlSource } from '../admin/store/model-control.ts'
import { nodeCountsOf } from '../admin/store/nodes.ts'
import { createRetention } from '../admin/store/retention.ts'
import { createDuplicateCounts, createRollup } from '../admin/store/rollup.ts'
import { createTakenOff } from '../admin/store/taken-off.ts'
import { createEngine } from '../opd/engine/engine.ts'
import { trainedPerSecond } from '../opd/pricing/exposures.ts'
import type { Log } from '../opd/shared/log.ts'
import { oneAtATime } from '../opd/shared/one-at-a-time.ts'
import type { Slices } from '../opd/shared/slices.ts'
import { createBidLog } from '../opd/state/bid-log.ts'
import { createDecisionLog } from '../opd/state/decision-log.ts'
import { localTokens } from '../opd/state/local-tokens.ts'
import { createModelManager } from '../opd/state/model-manager.ts'
import { createModelSync } from '../opd/state/model-sync.ts'
import { bidLogLimit } from '../proxy/memory.ts'
import { createProxy } from '../proxy/proxy.ts'
import { applyConfig, type ConfigRef } from './apply-config.ts'
import type { Config } from './config/schema.ts'
import { dayCaps } from './day-caps.ts'
import { loadOrCreateKeys } from './default-config.ts'
import { eventMetrics } from './metrics/events.ts'
import { modelMetrics, modelSyncMetrics } from './metrics/models.ts'
import { bindStateMetrics } from './metrics/state.ts'
import {
  contextKeys,
  engineSettings,
  integrationOf,
  ratesAge,
  retentionMs,
  routeOf,
  sharedBidTtl,
} from './runtime-config.ts'
import { bindServiceMetrics } from './status-adapters.ts'
import { createTracing } from './tracing.ts'
import { dividedConfig, dividedRoute, type Place, workerCount } from './workers/limits.ts'
import { modelBuses } from './workers/model-buses.ts'
import { openWorkers, statesAt, withWorkers } from './workers/node.ts'
import type { WorkerPool } from './workers/pool.ts'

export const modelsDirOf = (config: Config) => join(config.stateDir, 'models')

export type Components = Awaited<ReturnType<typeof openComponents>>

/** Milliseconds after the start; hours that passed without a node are summed then. */
const firstRetention = 5000

export async function openComponents(current: ConfigRef, log: Log) {
  const started = current.config
  const ownKeys = started.opd.keys ?? loadOrCreateKeys(started.stateDir)
  const keysOf = (config: Config) => config.opd.keys ?? ownKeys
  const place: Place = { index: 0, count: workerCount(started.proxy) }
  let pool: WorkerPool | null = null
  const now = Date.now
  const registry = new Registry()
  const tracing = createTracing(log)
  const meters = bindServiceMetrics(registry, () => ratesAge(current.config, now())?.age ?? null)
  const store = await openStore(started.store.database, {
    now,
    log,
    observe: (s) => meters.store.observe(s),
    owns: true,
  })
  const directory = await createDirectory(store, log)
  const { attributionWindow, contextTtl, decisionLog } = started.opd
  const modelManager = createModelManager({
    dir: modelsDirOf(started),
    attributionWindow,
    now,
    log,
    trains: started.node.role !== 'serve',
  })
  const controlSource = modelControlSource(store)
  const followModelControl = oneAtATime(async () => {
    await modelManager.execute(controlSource)
    pool?.tellAll('control')
  })
  await followModelControl()
  store.onChange(followModelControl)
  const nodeCounts = nodeCountsOf(store.db, started.location)
  let nodes = started.store.redis === null ? 1 : await nodeCounts.read()
  // Loaded only if configured: the Redis client is a sixth of the code that a start loads.
  const redis =
    started.store.redis === null
      ? null
      : (await import('../opd/state/redis.ts')).openRedis({
          url: started.store.redis,
          location: started.location,
          bidTtl: () => sharedBidTtl(current.config),
          log,
          nodes,
          onNodes(alive) {
            nodes = alive
            applyDirectory()
            nodeCounts
              .write(alive)
              .catch((error: Error) =>
                log.warn({ err: error.message }, 'the number of nodes could not be stored'),
              )
          },
        })
  const buses = modelBuses(modelManager, place.count, redis, now())
  const modelSync =
    buses === null
      ? null
      : createModelSync({ modelManager, redis: buses.first, log, role: started.node.role })
  const tokens = redis?.tokens ?? (place.count > 1 ? localTokens() : null)
  if (modelSync !== null) modelSyncMetrics(registry, modelSync)
  const sink = decisionLog === null ? null : createDecisionLog(decisionLog, log)
  modelMetrics(registry, modelManager)
  const bidLog = createBidLog({ ttl: contextTtl, now, maxBytes: bidLogLimit() })
  // Everything that counts wins uses the connections of the ledger, never those of the API.
  const winStore = { ...store, db: store.wins }
  const rollup = createRollup(winStore, log)
  // Loaded only if configured.
  const events =
    started.events === null
      ? null
      : (await import('./events/index.ts')).openEvents({
          config: started.events.kafka,
          store,
          node: modelManager.models.node,
          noticesOf: (id) => current.active.get(id ?? '')?.supplier.notices ?? 'win',
          now,
          log,
        })
  const duplicates = createDuplicateCounts(winStore, log)
  const keep = () => retentionMs(current.config)
  const retention = createRetention(winStore, { keep, now, log, first: firstRetention })
  const integrations = [...current.active.values()].map(({ supplier, invalid }) =>
    integrationOf(supplier, invalid),
  )
  const settings = engineSettings(started, contextKeys(keysOf(started)), attributionWindow)
  const engine = createEngine(
    { ...settings, integrations },
    {
      learners: modelManager,
      bidLog,
      observer: events?.observing(rollup) ?? rollup,
      shared:
        place.count === 1
          ? (redis?.shared ?? null)
          : withWorkers(() => pool!, redis?.shared ?? null, bidLog),
      sink,
      log,
      now,
      random: Math.random,
      trainedPerSecond: trainedPerSecond / place.count,
    },
  )
  const takenOff = createTakenOff(winStore, engine.reductions, { now, log })
  await takenOff.flush()
  const { ledger } = store
  const capsOfToday = () => dayCaps(engine, current.active.keys(), now())
  bindStateMetrics(registry, {
    ...{ redis, ledger, store, sink, stats: engine.stats, dayCaps: capsOfToday },
    nodes: () => nodes,
  })
  if (events !== null) eventMetrics(registry, events)
  const proxy = createProxy(
    dividedConfig(started.proxy, place),
    started.suppliers.map((supplier) => dividedRoute(routeOf(supplier), place)),
    {
      ...{ engine, registry, log },
      sharedTokens: tokens,
      sharesPort: place.count > 1,
      others: () => pool?.loads() ?? [],
      tracer: tracing,
    },
  )

  const directoryMessage = () => ({
    states: statesAt(directory, started.location),
    holds: directory.snapshot().holds,
    share: 1 / nodes,
  })
  /** Applies the directory's snapshot to engine and proxy. */
  const applyDirectory = () => {
    const message = directoryMessage()
    engine.setHolds(message.holds)
    proxy.setDirectory((id) => message.states.get(id), message.share / place.count)
    pool?.tellAll('directory', message)
  }
  directory.onChange(applyDirectory)
  applyDirectory()
  if (buses !== null && place.count > 1) {
    pool = openWorkers(place.count, {
      ...{ current, modelManager, models: buses.worker, tokens: tokens!, bidLog, sink, log },
      keysOf: () => keysOf(current.config),
      directory: directoryMessage,
      shared: redis?.shared ?? null,
      addRows: rollup.add,
      reductions: () => [...capsOfToday()],
      onDecided: events?.decided ?? null,
      stats: engine.stats,
      proxy: () => proxy,
    })
  }

  return {
    ...{
      registry,
      meters,
      store,
      directory,
      modelManager,
      followModelControl,
      redis,
      bidLog,
      rollup,
      duplicates,
      events,
      engine,
      proxy,
      pool,
      tracing,
    },
    now,
    /** The models of the other nodes are here, or were waited for long enough. */
    hasModels: () => modelSync?.joined ?? true,
    /** Applies another configuration, in time slices. */
    async configure(config: Config, slices: Slices) {
      bidLog.retain(config.opd.contextTtl)
      const targets = { engine, proxy, place, attributionWindow }
      await applyConfig(current, config, contextKeys(keysOf(config)), targets, slices)
      await pool?.reload({ ...config, opd: { ...config.opd, keys: keysOf(config) } })
    },
    /** Flushes and closes the components that outlive the listeners. */
    async close() {
      await modelSync?.close()
      await redis?.close()
      await modelManager.close()
      await sink?.close()
      await events?.close()
      retention.close()
      await takenOff.close()
      await duplicates.close()
      await rollup.close()
    },
  }
}
