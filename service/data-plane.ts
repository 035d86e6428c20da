/** Composes store, model, engine and proxy. They open in the order of their dependencies and close in reverse. */
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { createDirectory } from '../admin/directory.ts'
import { openStore } from '../admin/store/index.ts'
import { modelControlSource } from '../admin/store/model-control.ts'
import { nodeCountsOf } from '../admin/store/nodes.ts'
import { createRetention } from '../admin/store/retention.ts'
import { createDuplicateCounts, createRollup } from '../admin/store/rollup.ts'
import { createEngine } from '../opd/engine/engine.ts'
import type { Log } from '../opd/shared/log.ts'
import { oneAtATime } from '../opd/shared/one-at-a-time.ts'
import type { Slices } from '../opd/shared/slices.ts'
import { createBidLog } from '../opd/state/bid-log.ts'
import { createDecisionLog } from '../opd/state/decision-log.ts'
import { createModelManager } from '../opd/state/model-manager.ts'
import { createModelSync } from '../opd/state/model-sync.ts'
import { bidLogLimit } from '../proxy/memory.ts'
import { createProxy } from '../proxy/proxy.ts'
import type { Config } from './config/schema.ts'
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
import { type ActiveSupplier, type SupplierTargets, swapSuppliers } from './supplier-swap.ts'

/** The current configuration. A reload replaces it. */
export interface ConfigRef {
  config: Config
  /** Suppliers by id. During a reload some are newer than `config`. */
  active: Map<string, ActiveSupplier>
}

export const modelsDirOf = (config: Config) => join(config.stateDir, 'models')

export type Components = Awaited<ReturnType<typeof openComponents>>

export async function openComponents(current: ConfigRef, log: Log) {
  const started = current.config
  const keys = contextKeys(started.opd.keys ?? loadOrCreateKeys(started.stateDir))
  const now = Date.now
  const registry = new Registry()
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
  const followModelControl = oneAtATime(() => modelManager.execute(controlSource))
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
  const modelSync =
    redis === null ? null : createModelSync({ modelManager, redis, log, role: started.node.role })
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
  const retention = createRetention(winStore, { keep: () => retentionMs(current.config), now, log })
  const integrations = [...current.active.values()].map(({ supplier, invalid }) =>
    integrationOf(supplier, invalid),
  )
  const settings = engineSettings(started, keys, attributionWindow)
  const engine = createEngine(
    { ...settings, integrations },
    {
      learners: modelManager,
      bidLog,
      observer: events?.observing(rollup) ?? rollup,
      shared: redis?.shared ?? null,
      sink,
      log,
      now,
      random: Math.random,
    },
  )
  const { ledger } = store
  bindStateMetrics(registry, { redis, ledger, sink, stats: engine.stats, nodes: () => nodes })
  if (events !== null) eventMetrics(registry, events)
  const proxy = createProxy(started.proxy, started.suppliers.map(routeOf), {
    engine,
    registry,
    log,
    sharedTokens: redis?.tokens ?? null,
  })

  /** Applies the directory's snapshot to engine and proxy. */
  const applyDirectory = () => {
    const { suppliers, holds } = directory.snapshot()
    engine.setHolds(holds)
    proxy.setDirectory((id) => {
      const state = suppliers.get(id)
      if (state === undefined) return undefined
      const allotment = state.datacenters.get(started.location)
      return { inactiveSeats: state.inactiveSeats, allotment }
    }, 1 / nodes)
  }
  directory.onChange(applyDirectory)
  applyDirectory()

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
    },
    now,
    /** The models of the other nodes are here, or were waited for long enough. */
    hasModels: () => modelSync?.joined ?? true,
    /** Applies another configuration, in time slices. */
    async configure(config: Config, slices: Slices) {
      const next = config.opd.keys === undefined ? keys : contextKeys(config.opd.keys)
      engine.configure(engineSettings(config, next, attributionWindow))
      bidLog.retain(config.opd.contextTtl)
      proxy.configure(config.proxy)
      const components: SupplierTargets = {
        set(supplier) {
          engine.setIntegration(integrationOf(supplier, false))
          proxy.setRoute(routeOf(supplier))
        },
        remove(id) {
          engine.removeIntegration(id)
          proxy.removeRoute(id)
        },
      }
      await swapSuppliers(current.active, config.suppliers, components, slices)
      current.config = config
    },
    /** Flushes and closes the components that outlive the listeners. */
    async close() {
      await modelSync?.close()
      await redis?.close()
      await modelManager.close()
      await sink?.close()
      await events?.close()
      retention.close()
      await duplicates.close()
      await rollup.close()
    },
  }
}
