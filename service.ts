/** The composition root: reads what was configured, builds the parts, wires them, starts, reloads and drains. */
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { bearer } from './admin/auth/bearer.ts'
import { createAuth } from './admin/auth/index.ts'
import { firstUser } from './admin/auth/users.ts'
import { dashboard } from './admin/dashboard.ts'
import { decisions } from './admin/decisions.ts'
import { createDirectory, type Directory } from './admin/directory.ts'
import { health } from './admin/health.ts'
import { ImpressionCounters } from './admin/impressions/counters.ts'
import { impressions } from './admin/impressions.ts'
import { management } from './admin/management.ts'
import { opdMetrics } from './admin/opd-metrics.ts'
import { reporting } from './admin/reports.ts'
import { createAdmin } from './admin/server.ts'
import { standalone } from './admin/standalone.ts'
import { openStore } from './admin/store/index.ts'
import { createRepeats } from './admin/store/repeats.ts'
import { createRetention } from './admin/store/retention.ts'
import { createRollup } from './admin/store/rollup.ts'
import type { Config } from './config.ts'
import { faultLine, type LoadedConfig } from './config-file.ts'
import { keptKeys } from './embedded.ts'
import type { Log } from './log.ts'
import { modelMetrics } from './model-metrics.ts'
import { createEngine } from './opd/engine/create.ts'
import { createBidLog } from './opd/state/bidlog.ts'
import { createDecisionLog } from './opd/state/decision-log.ts'
import { createExchange } from './opd/state/exchange.ts'
import { createKeeper } from './opd/state/keeper.ts'
import { openRedis } from './opd/state/redis.ts'
import { createProxy } from './proxy/proxy.ts'
import {
  engineConfig,
  keptFor,
  keysOf,
  listedSuppliers,
  needsRestart,
  ratesAge,
  readingsOf,
  routesOf,
} from './settings.ts'
import { bindStateMetrics } from './state-metrics.ts'
import { accountsOf, allotmentOf, bindServiceMetrics, endpointsOf, opdState } from './views.ts'
import { watchFiles } from './watch.ts'

export interface Service {
  proxyPort: number
  adminPort: number
  /** Set at the first start of an embedded realm. */
  firstUser: { name: string; password: string } | null
  config(): Config
  reload(loaded: LoadedConfig): void
  /**
   * Answers what is in flight, flushes, and resolves. Milliseconds: `grace` before the listener closes, `limit` for it
   * all; what is in flight by then (a download under /pass has no end of its own) is cut, the stores are not.
   */
  stop(grace: number, limit?: number): Promise<void>
}

export interface ServiceOptions {
  loaded: LoadedConfig & { config: Config }
  /** Reads the configuration again; null: there is no file. */
  again: (() => LoadedConfig) | null
  log: Log
}

/** What of a drain is kept for the stores: milliseconds. */
export const flushTime = (limit: number) => Math.min(5000, limit / 4)

/** Where keys and models live: beside the database, or in `data`. */
export function stateDirOf(config: Config): string {
  const { database } = config.store
  return database.startsWith('sqlite:') ? dirname(database.slice(7)) : 'data'
}

export const modelsDirOf = (config: Config) => join(stateDirOf(config), 'models')

export async function startService({ loaded, again, log }: ServiceOptions): Promise<Service> {
  let { config, invalidOpd } = loaded
  const started = config
  const stateDir = stateDirOf(config)
  const keys = keysOf(config.opd.keys ?? keptKeys(stateDir))
  const now = Date.now
  const registry = new Registry()
  const meters = bindServiceMetrics(registry, () => ratesAge(config, now())?.age ?? null)

  const store = await openStore(config.store.database, {
    now,
    log,
    observe: (s) => meters.store.observe(s),
  })
  const directory = await createDirectory(store, log)
  const keeper = createKeeper({
    dir: modelsDirOf(config),
    attributionWindow: config.opd.attributionWindow,
    now,
    log,
  })
  let nodes = 1
  const redis =
    config.store.redis === null
      ? null
      : openRedis({
          url: config.store.redis,
          location: config.location,
          contextTtl: () => config.opd.contextTtl,
          log,
          onNodes(alive) {
            nodes = alive
            wire()
          },
        })
  const exchange = redis === null ? null : createExchange({ keeper, redis, log })
  const { decisionLog } = config.opd
  const sink = decisionLog === null ? null : createDecisionLog(decisionLog, log)
  modelMetrics(registry, keeper)
  const bidLog = createBidLog({ ttl: config.opd.contextTtl, now })
  const rollup = createRollup(store, log)
  const repeats = createRepeats(store, log)
  const retention = createRetention(store, { keep: () => keptFor(config), now, log })
  const engine = createEngine(engineConfig(config, keys, invalidOpd), {
    learners: keeper,
    bidLog: rollup.counting(bidLog),
    shared: redis?.shared ?? null,
    sink,
    now,
    random: Math.random,
  })
  const { ledger } = store
  bindStateMetrics(registry, { redis, ledger, sink, stats: engine.stats, nodes: () => nodes })
  const proxy = createProxy(config.proxy, routesOf(config), { engine, registry, log })
  const wire = () => applyDirectory(directory, started.location, engine, proxy, 1 / nodes)
  directory.onChange(wire)
  wire()

  let ready = false
  let draining = false
  const counters = new ImpressionCounters()
  const { auth: door, listen } = config.admin
  const auth = await createAuth(door, {
    store,
    baseUrl: `http://${listen}`,
    log,
    now,
    trustedProxies: () => config.proxy.trustedProxies,
  })
  const role = 'issuer' in door ? door.role : 'api'
  const entry = bearer(auth.verifier, { role })
  let accounts = accountsOf(config)
  const account = (supplier: string) => accounts.get(supplier)
  opdMetrics(registry, {
    stats: engine.stats,
    counters,
    invalid: () => config.suppliers.map(({ id }) => ({ ssp: id, invalid: invalidOpd.has(id) })),
    bidLog,
    model: (mode) => ({ version: keeper.version(mode), ageSeconds: keeper.age(mode) ?? 0 }),
  })
  const api = { engine, bearer: entry, account }
  const admin = createAdmin({
    listen: config.admin.listen,
    log,
    plugins: [
      health({
        registry,
        ping: () => store.ping(),
        missing: () => (draining ? ['draining'] : ready ? [] : ['starting']),
      }),
      ...(auth.plugin === null ? [] : [auth.plugin]),
      management({
        store,
        suppliers: () => listedSuppliers(config),
        bearer: entry,
        operator: bearer(auth.verifier, { role: 'operator' }),
        changed: () => void directory.refresh(),
        now,
      }),
      dashboard({
        bearer: entry,
        realm: auth.realm,
        suppliers: () => listedSuppliers(config),
        stats: engine.stats,
        counters,
        holds: () => directory.snapshot().holds,
        location: config.location,
        currency: () => config.currency.base,
        opd: (id) => opdState(engine.integration(id)),
        now,
        endpoints: (id) => endpointsOf(proxy, id),
        allotment: (id) => allotmentOf(proxy, id),
      }),
      reporting({
        store,
        suppliers: () => listedSuppliers(config),
        bearer: entry,
        now,
        flush: async () => {
          await Promise.all([rollup.flush(), repeats.flush()])
        },
        readings: () => readingsOf(config),
      }),
      standalone(api),
      decisions(api),
      impressions({
        engine,
        ledger: store.ledger,
        seen: redis?.seen ?? null,
        auth: config.admin.impressions.auth,
        contextTtl: () => config.opd.contextTtl,
        integration: (id) => engine.integration(id),
        account,
        now,
        alert: (what, supplier) => log.warn({ what, supplier }, 'impressions want a look'),
        counters,
        repeated: repeats.count,
        verifier: auth.verifier,
        role,
        log,
      }),
    ],
  })

  const { port: adminPort } = await admin.listen()
  const { port: proxyPort } = await proxy.listen()
  // only now: a start that fails, such as at a taken port, would have told its password to nobody
  const first = 'embedded' in door ? await firstUser(store, door.embedded.adminPassword) : null
  ready = true

  const alertRates = () => {
    const made = ratesAge(config, now())
    if (made?.stale) log.warn({ hours: Math.floor(made.age / 3_600_000) }, 'exchange rates are old')
  }
  const ratesLook = setInterval(alertRates, 3_600_000).unref()
  alertRates()

  const reload = (next: LoadedConfig) => {
    if (next.config === null) {
      meters.reloads.inc({ result: 'refused' })
      for (const fault of next.faults)
        log.error({ path: fault.path }, faultLine(fault, next.files[0] ?? 'configuration'))
      return log.error({ faults: next.faults.length }, 'reload refused, nothing is changed')
    }
    reportOpdFaults(next, log)
    const fixed = needsRestart(started, next.config)
    if (fixed.length > 0) log.warn({ paths: fixed }, 'restart needed')
    config = next.config
    invalidOpd = next.invalidOpd
    accounts = accountsOf(config)
    const nextKeys = config.opd.keys === undefined ? keys : keysOf(config.opd.keys)
    engine.configure(engineConfig(config, nextKeys, invalidOpd))
    bidLog.retain(config.opd.contextTtl)
    proxy.configure(config.proxy, routesOf(config))
    wire()
    alertRates()
    meters.reloads.inc({ result: 'taken' })
    log.info({ suppliers: config.suppliers.length }, 'configuration reloaded')
  }
  reportOpdFaults(loaded, log)
  const watching = again === null ? null : watchConfig(again, reload, loaded.files)

  return {
    proxyPort,
    adminPort,
    firstUser: first,
    config: () => config,
    reload,
    async stop(grace, limit = Number.POSITIVE_INFINITY) {
      const began = performance.now()
      draining = true
      watching?.close()
      clearInterval(ratesLook)
      proxy.drain()
      await pause(grace)
      const left = limit - flushTime(limit) - (performance.now() - began)
      const cut = setTimeout(() => proxy.destroy(), Math.min(left, 2 ** 31 - 1))
      await proxy.close()
      clearTimeout(cut)
      // Half a request there holds nothing up that others have said.
      await Promise.race([admin.close(), pause(Math.min(flushTime(limit) / 2, 2000))])
      await exchange?.close()
      await redis?.close()
      await keeper.close()
      await sink?.close()
      retention.close()
      await repeats.close()
      await rollup.close()
      auth.close()
      await store.close()
    },
  }
}

function reportOpdFaults(loaded: LoadedConfig, log: Log): void {
  for (const fault of loaded.faults)
    log.error(
      { path: fault.path },
      `${faultLine(fault, loaded.files[0] ?? 'configuration')}; OPD is off for this supplier`,
    )
}

function watchConfig(
  again: () => LoadedConfig,
  reload: (loaded: LoadedConfig) => void,
  files: string[],
) {
  const look = () => {
    const loaded = again()
    watch.set(loaded.files)
    reload(loaded)
  }
  const watch = watchFiles(look)
  watch.set(files)
  process.on('SIGHUP', look)
  return {
    close() {
      watch.close()
      process.off('SIGHUP', look)
    },
  }
}

function applyDirectory(
  directory: Directory,
  location: string,
  engine: ReturnType<typeof createEngine>,
  proxy: ReturnType<typeof createProxy>,
  share: number,
): void {
  const { suppliers, holds } = directory.snapshot()
  engine.setHolds(holds)
  proxy.admit((id) => {
    const state = suppliers.get(id)
    if (state === undefined) return undefined
    return { inactiveSeats: state.inactiveSeats, allotment: state.datacenters.get(location) }
  }, share)
}
