/** The life of the service: start, reload, drain. */
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { firstUser } from '../admin/auth/users.ts'
import { atMost } from '../opd/base/at-most.ts'
import type { Log } from '../opd/base/log.ts'
import { oneAtATime } from '../opd/base/one-at-a-time.ts'
import { createSlices } from '../opd/base/slices.ts'
import { openAdminPlane } from './admin-plane.ts'
import type { ConfigRef } from './bid-path.ts'
import { activeSuppliers } from './bid-path.ts'
import type { LoadedConfig } from './config/check.ts'
import { type ConfigFault, faultLine } from './config/faults.ts'
import type { FileVersions } from './config/files.ts'
import type { Load } from './config/loader.ts'
import { needsRestart } from './config/restart.ts'
import type { Config } from './config/schema.ts'
import { referenceRules } from './config/supplier-block.ts'
import { watchFiles } from './config/watch.ts'
import { keysFile } from './context-keys.ts'
import { type Components, openComponents } from './data-plane.ts'
import type { LeveledLog } from './debug/debugging.ts'
import type { LoopWatch } from './debug/loop-watch.ts'
import { ratesAge } from './runtime-config.ts'
import { supplierRules } from './supplier-rules.ts'

export type Service = Awaited<ReturnType<typeof startService>>

interface ServiceOptions {
  loaded: LoadedConfig & { config: Config }
  /** Reads the configuration file again; null: there is none. */
  load: Load | null
  log: LeveledLog
  /** null: nothing watches the event loop. */
  watch: LoopWatch | null
}

/** Milliseconds after which suppliers are applied again if that failed. */
const applyAgainAfter = 1000

/**
 * Milliseconds of a drain that are reserved for flushing the stores.
 *
 * @param limit milliseconds of the whole drain
 */
export const flushTime = (limit: number) => Math.min(5000, limit / 4)

/** The file as it was last accepted, without suppliers of the API. A reload replaces it. */
interface AcceptedFile {
  loaded: LoadedConfig & { config: Config }
}

/** Applies the file and the suppliers of the API. */
class AppliedConfig {
  private readonly file: AcceptedFile
  private readonly components: Components
  private readonly log: Log
  /** The files that suppliers of the API name. */
  private readonly referenced: ReturnType<typeof watchFiles>
  private readonly ended = new AbortController()

  constructor(file: AcceptedFile, components: Components, log: Log) {
    this.file = file
    this.components = components
    this.log = log
    const { stored } = components
    this.referenced = watchFiles(() => void stored.recheck().then(() => this.tryApply()))
    this.referenced.set(stored.files())
  }

  /** Applies them as they are when the run begins. Rejects if that fails: some may then be applied. */
  readonly apply = oneAtATime(async () => {
    const { stored } = this.components
    const { config, invalidOpd } = this.file.loaded
    const suppliers = stored.mergedWith(config.suppliers)
    await this.components.configure({ ...config, suppliers }, createSlices(), invalidOpd)
    this.referenced.set(stored.files())
  })

  /** The same. A failure is logged, and it is tried again later. Never rejects. */
  async tryApply(): Promise<void> {
    try {
      await this.apply()
    } catch (error) {
      const err = (error as Error).message
      this.log.error({ err }, 'the suppliers could not be applied, it is tried again')
      // The store does not report a change twice.
      void pause(applyAgainAfter, null, { ref: false, signal: this.ended.signal }).then(
        () => this.tryApply(),
        () => {},
      )
    }
  }

  /** Applies each change of the suppliers of the API from now on. */
  async follow(): Promise<void> {
    const { store, stored } = this.components
    store.onChange(async () => {
      // Not awaited: the store is polled on while many suppliers are applied.
      if (await stored.read()) void this.tryApply()
    })
    // They were read before other parts opened, and the store reports no change from before there was a listener.
    if (await stored.read()) await this.tryApply()
  }

  /** Applies a change that a call of the API has just made. Never rejects. */
  readonly applyChange = async (): Promise<void> => {
    try {
      await this.components.stored.read()
      await this.tryApply()
    } catch (error) {
      this.log.error({ err: (error as Error).message }, 'the suppliers are read at the next poll')
    }
  }

  close(): void {
    this.referenced.close()
    this.ended.abort()
  }
}

/** Why bid traffic cannot be served now; empty: it can. */
function missingParts({ meters, pool, hasModels }: Components, ready: boolean): string[] {
  if (meters.life.draining) return ['draining']
  if (!ready) return ['starting']
  if ((pool?.missing ?? 0) > 0) return ['workers']
  return hasModels() ? [] : ['models of the other nodes']
}

function warnOfOldRates({ config }: ConfigRef, log: Log): void {
  const made = ratesAge(config, Date.now())
  if (made?.stale) log.warn({ hours: Math.floor(made.age / 3_600_000) }, 'exchange rates are old')
}

/**
 * Starts the service; resolves when it serves.
 *
 * @param options `load` reads the configuration again, null: there is no file; `watch`: whether a changed file is a reload
 * @throws if a store cannot be opened, or a port is in use
 */
export async function startService({ loaded, load, log, watch }: ServiceOptions) {
  const { config, invalidOpd } = loaded
  const current: ConfigRef = { config, active: activeSuppliers(config.suppliers, invalidOpd) }
  const started = config
  const path = load === null ? null : (loaded.files.keys().next().value ?? null)
  const file: AcceptedFile = { loaded }
  const references = referenceRules(
    path === null ? '.' : dirname(path),
    () => [keysFile(config.stateDir), ...file.loaded.nodeFiles],
    () => file.loaded.config.proxy.tls?.clientCa !== undefined,
  )
  const components = await openComponents(current, references, log, watch)
  const { store, stored } = components
  const appliedConfig = new AppliedConfig(file, components, log)
  await appliedConfig.follow()
  let ready = false
  const notReady = () => missingParts(components, ready)
  const rules = {
    ...supplierRules(() => file.loaded, path, references),
    applied: appliedConfig.applyChange,
  }
  const adminPlane = await openAdminPlane(current, components, rules, notReady, log)
  const { port: adminPort } = await adminPlane.listen()
  const noticesPort = await adminPlane.listenForNotices()
  const agentPort = await adminPlane.listenForAgents()
  const { port: proxyPort } = await components.proxy.listen()
  if (components.pool !== null) {
    // A worker begins with the model of the node.
    while (!components.hasModels()) await pause(20)
    await components.pool.start(proxyPort)
  }
  const { auth } = started.admin
  // After listening: a start that fails, such as at a port in use, would lose the password that it generated.
  const first =
    'embedded' in auth ? await firstUser(components.store, auth.embedded.adminPassword) : null
  ready = true
  adminPlane.ready()
  watch?.start()

  const ratesTimer = setInterval(warnOfOldRates, 3_600_000, current, log).unref()
  warnOfOldRates(current, log)

  /** A start accepts an `opd` block with faults; a reload refuses it, because OPD would be switched off unnoticed. */
  const reload = async (next: LoadedConfig) => {
    const { config: nextConfig, faults, keptFaults } = next
    if (nextConfig === null || faults.length > 0) {
      components.meters.reloads.refused()
      await logFaults(next, faults, log)
      return log.error({ faults: faults.length }, 'reload refused, nothing is changed')
    }
    const fixed = needsRestart(started, nextConfig)
    if (fixed.length > 0) log.warn({ paths: fixed }, 'restart needed')
    await logFaults(next, keptFaults, log, '; the suppliers of the file stay as they were')
    file.loaded = { ...next, config: nextConfig }
    await stored.recheck()
    await appliedConfig.apply()
    components.debug.configure(nextConfig.log.level)
    warnOfOldRates(current, log)
    const { reloads } = components.meters
    reloads.taken(fixed)
    reloads.kept(new Set(keptFaults.map((fault) => fault.file ?? fault.path)).size)
    log.info({ suppliers: current.config.suppliers.length }, 'configuration reloaded')
  }
  void logFaults(loaded, loaded.faults, log, '; OPD is off for this supplier')
  const trigger = load === null ? null : new ReloadTrigger(load, reload, loaded.files, log)

  return {
    proxyPort,
    adminPort,
    /** null: without a listener of their own, notices come to the admin listener. */
    noticesPort,
    /** null: there is no agent listener. */
    agentPort,
    /** The user that the first start of an embedded realm created. `password` is null if the configuration gave it. */
    firstUser: first,
    config: () => current.config,
    /** What the console shows of a supplier; null: there is no such supplier. */
    figures: adminPlane.figures,
    /**
     * Completes the requests in flight, flushes, and resolves. `grace`: milliseconds before the listener closes. `limit`:
     * milliseconds for the whole drain. Requests that still run then are cut (a download under /pass may be endless); the
     * stores are flushed in any case.
     */
    async stop(grace: number, limit = Number.POSITIVE_INFINITY): Promise<void> {
      const { proxy, pool } = components
      const began = performance.now()
      components.meters.life.draining = true
      trigger?.close()
      clearInterval(ratesTimer)
      appliedConfig.close()
      proxy.drain()
      pool?.drain()
      adminPlane.drain()
      await pause(grace)
      const left = limit - flushTime(limit) - (performance.now() - began)
      const cut = setTimeout(
        () => {
          proxy.destroy()
          pool?.destroy()
        },
        Math.min(left, 2 ** 31 - 1),
      )
      await Promise.all([proxy.close().then(() => watch?.stop()), pool?.close()])
      clearTimeout(cut)
      // A client that sends half a request must not delay the flush.
      await atMost(Math.min(flushTime(limit) / 2, 2000), adminPlane.close())
      await components.close()
      adminPlane.end()
      await store.close()
      await components.tracing.close()
    },
  }
}

/** In time slices. `effect`: what follows from each fault. */
async function logFaults(
  { files }: LoadedConfig,
  faults: readonly ConfigFault[],
  log: Log,
  effect = '',
): Promise<void> {
  const slices = createSlices()
  const file = files.keys().next().value ?? 'configuration'
  for (const fault of faults) {
    log.error({ path: fault.path, file: fault.file }, faultLine(fault, file) + effect)
    await slices.next()
  }
}

/** Reloads when a file of the configuration changes, and at SIGHUP. A change during a reload causes another one. */
class ReloadTrigger {
  private readonly load: Load
  private readonly reload: (loaded: LoadedConfig) => Promise<void>
  private readonly log: Log
  private readonly watch = watchFiles(() => this.trigger())
  private files: FileVersions
  private closed = false
  private readonly trigger = () =>
    void this.run().catch((error: Error) =>
      this.log.error({ err: error.message }, 'the reload failed'),
    )
  private readonly run = oneAtATime(async () => {
    const loaded = await this.readFiles()
    if (!this.closed) await this.reload(loaded)
  })

  /** @param files those that were read at the start */
  constructor(
    load: Load,
    reload: (loaded: LoadedConfig) => Promise<void>,
    files: FileVersions,
    log: Log,
  ) {
    this.load = load
    this.reload = reload
    this.files = files
    this.log = log
    this.watch.set(files)
    process.on('SIGHUP', this.trigger)
  }

  close(): void {
    this.closed = true
    this.watch.close()
    process.off('SIGHUP', this.trigger)
  }

  /** The files are not watched while they are read: after an edit and a signal the watcher would have them read twice. */
  private async readFiles(): Promise<LoadedConfig> {
    this.watch.set(new Map())
    try {
      const loaded = await this.load()
      this.files = loaded.files
      return loaded
    } finally {
      this.watch.set(this.files)
    }
  }
}
