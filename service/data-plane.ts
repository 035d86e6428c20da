/** What the service is made of, opened in the order of their needs and closed in the other. */
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { createDirectory } from '../admin/directory.ts'
import { createRepeats } from '../admin/store/duplicates.ts'
import { openStore } from '../admin/store/index.ts'
import { modelControlSource } from '../admin/store/model-control.ts'
import { createRetention } from '../admin/store/retention.ts'
import { createRollup } from '../admin/store/rollup.ts'
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
import { keptKeys } from './default-config.ts'
import { modelMetrics } from './metrics/models.ts'
import { bindStateMetrics } from './metrics/state.ts'
import {
  engineSettings,
  integrationOf,
  keptFor,
  keysOf,
  ratesAge,
  routeOf,
} from './runtime-config.ts'
import { bindServiceMetrics } from './status-adapters.ts'
import { type SupplierParts, swapSuppliers, type Taken } from './supplier-swap.ts'

/** The configuration that holds now; a reload puts another in its place. */
export interface Live {
  config: Config
  /** Its suppliers by id, ahead of `config` while a reload takes them in. */
  taken: Map<string, Taken>
}

/** Where keys, models and the SQLite file live; absolute. */
export const stateDirOf = (config: Config) => config.stateDir

export const modelsDirOf = (config: Config) => join(stateDirOf(config), 'models')

export type Parts = Awaited<ReturnType<typeof openParts>>

export async function openParts(live: Live, log: Log) {
  const started = live.config
  const keys = keysOf(started.opd.keys ?? keptKeys(stateDirOf(started)))
  const now = Date.now
  const registry = new Registry()
  const meters = bindServiceMetrics(registry, () => ratesAge(live.config, now())?.age ?? null)
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
  })
  const controlSource = modelControlSource(store)
  const followModelControl = oneAtATime(() => modelManager.execute(controlSource))
  await followModelControl()
  store.onChange(followModelControl)
  let nodes = 1
  // Its client is a sixth of what a start loads.
  const redis =
    started.store.redis === null
      ? null
      : (await import('../opd/state/redis.ts')).openRedis({
          url: started.store.redis,
          location: started.location,
          contextTtl: () => live.config.opd.contextTtl,
          log,
          onNodes(alive) {
            nodes = alive
            wire()
          },
        })
  const modelSync = redis === null ? null : createModelSync({ modelManager, redis, log })
  const sink = decisionLog === null ? null : createDecisionLog(decisionLog, log)
  modelMetrics(registry, modelManager)
  const bidLog = createBidLog({ ttl: contextTtl, now, maxBytes: bidLogLimit() })
  // what counts wins shares their connections, none of the API's
  const counted = { ...store, db: store.wins }
  const rollup = createRollup(counted, log)
  const repeats = createRepeats(counted, log)
  const retention = createRetention(counted, { keep: () => keptFor(live.config), now, log })
  const integrations = [...live.taken.values()].map(({ supplier, invalid }) =>
    integrationOf(supplier, invalid),
  )
  const settings = engineSettings(started, keys, attributionWindow)
  const engine = createEngine(
    { ...settings, integrations },
    {
      learners: modelManager,
      bidLog,
      observer: rollup,
      shared: redis?.shared ?? null,
      sink,
      log,
      now,
      random: Math.random,
    },
  )
  const { ledger } = store
  bindStateMetrics(registry, { redis, ledger, sink, stats: engine.stats, nodes: () => nodes })
  const proxy = createProxy(started.proxy, started.suppliers.map(routeOf), {
    engine,
    registry,
    log,
  })

  /** Takes what the directory says now to engine and proxy. */
  const wire = () => {
    const { suppliers, holds } = directory.snapshot()
    engine.setHolds(holds)
    proxy.admit((id) => {
      const state = suppliers.get(id)
      if (state === undefined) return undefined
      const allotment = state.datacenters.get(started.location)
      return { inactiveSeats: state.inactiveSeats, allotment }
    }, 1 / nodes)
  }
  directory.onChange(wire)
  wire()

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
      repeats,
      engine,
      proxy,
    },
    now,
    /** Takes in another configuration, in slices. */
    async configure(config: Config, slices: Slices) {
      const next = config.opd.keys === undefined ? keys : keysOf(config.opd.keys)
      engine.configure(engineSettings(config, next, attributionWindow))
      bidLog.retain(config.opd.contextTtl)
      proxy.configure(config.proxy)
      const parts: SupplierParts = {
        set(supplier) {
          engine.setIntegration(integrationOf(supplier, false))
          proxy.setRoute(routeOf(supplier))
        },
        remove(id) {
          engine.removeIntegration(id)
          proxy.removeRoute(id)
        },
      }
      await swapSuppliers(live.taken, config.suppliers, parts, slices)
      live.config = config
    },
    /** Flushes and closes what outlives the listeners. */
    async close() {
      await modelSync?.close()
      await redis?.close()
      await modelManager.close()
      await sink?.close()
      retention.close()
      await repeats.close()
      await rollup.close()
    },
  }
}
