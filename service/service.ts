/** The composition root: opens the parts and the doors, listens, reloads and drains. */
import { setTimeout as pause } from 'node:timers/promises'
import { firstUser } from '../admin/auth/users.ts'
import type { Log } from '../opd/shared/log.ts'
import { oneAtATime } from '../opd/shared/one-at-a-time.ts'
import { createSlices, type Slices } from '../opd/shared/slices.ts'
import { openDoors } from './admin-plane.ts'
import { faultLine, type LoadedConfig } from './config/load.ts'
import type { Load } from './config/loader.ts'
import type { Config } from './config/schema.ts'
import { watchFiles } from './config/watch.ts'
import { type Live, openParts } from './data-plane.ts'
import { needsRestart, ratesAge } from './runtime-config.ts'
import { takenOf } from './supplier-swap.ts'

export interface Service {
  proxyPort: number
  adminPort: number
  /** Set at the first start of an embedded realm. */
  firstUser: { name: string; password: string } | null
  config(): Config
  /**
   * Answers what is in flight, flushes, and resolves. Milliseconds: `grace` before the listener closes, `limit` for it
   * all; what is in flight by then (a download under /pass has no end of its own) is cut, the stores are not.
   */
  stop(grace: number, limit?: number): Promise<void>
}

export interface ServiceOptions {
  loaded: LoadedConfig & { config: Config }
  /** Reads the configuration again; null: there is no file. */
  again: Load | null
  log: Log
}

/** What of a drain is kept for the stores: milliseconds. */
export const flushTime = (limit: number) => Math.min(5000, limit / 4)

export async function startService({ loaded, again, log }: ServiceOptions): Promise<Service> {
  const { config, invalidOpd } = loaded
  const live: Live = { config, taken: takenOf(config.suppliers, invalidOpd) }
  const started = config
  const parts = await openParts(live, log)
  let ready = false
  let draining = false
  const missing = () => (draining ? ['draining'] : ready ? [] : ['starting'])
  const doors = await openDoors(live, parts, missing, log)
  const { port: adminPort } = await doors.listen()
  const { port: proxyPort } = await parts.proxy.listen()
  const { auth } = started.admin
  // only now: a start that fails, such as at a taken port, would have told its password to nobody
  const first =
    'embedded' in auth ? await firstUser(parts.store, auth.embedded.adminPassword) : null
  ready = true

  const alertRates = () => {
    const made = ratesAge(live.config, Date.now())
    if (made?.stale) log.warn({ hours: Math.floor(made.age / 3_600_000) }, 'exchange rates are old')
  }
  const ratesLook = setInterval(alertRates, 3_600_000).unref()
  alertRates()

  const refuse = async ({ faults, files }: LoadedConfig, slices: Slices) => {
    parts.meters.reloads.inc({ result: 'refused' })
    for (const fault of faults) {
      log.error({ path: fault.path }, faultLine(fault, files[0] ?? 'configuration'))
      await slices.next()
    }
    log.error({ faults: faults.length }, 'reload refused, nothing is changed')
  }
  /** What is allowed at a start, an `opd` block with faults, is not at a reload: OPD would be off without a word. */
  const reload = async (next: LoadedConfig) => {
    const slices = createSlices()
    if (next.config === null || next.faults.length > 0) return refuse(next, slices)
    const fixed = needsRestart(started, next.config)
    if (fixed.length > 0) log.warn({ paths: fixed }, 'restart needed')
    await parts.configure(next.config, slices)
    alertRates()
    parts.meters.reloads.inc({ result: 'taken' })
    log.info({ suppliers: live.config.suppliers.length }, 'configuration reloaded')
  }
  reportOpdFaults(loaded, log)
  const watching = again === null ? null : watchConfig(again, reload, loaded.files, log)

  return {
    proxyPort,
    adminPort,
    firstUser: first,
    config: () => live.config,
    async stop(grace, limit = Number.POSITIVE_INFINITY) {
      const { proxy, store } = parts
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
      await Promise.race([doors.close(), pause(Math.min(flushTime(limit) / 2, 2000))])
      await parts.close()
      doors.end()
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

/** One reload at a time; what changes meanwhile is read by the next. */
function watchConfig(
  again: Load,
  reload: (loaded: LoadedConfig) => Promise<void>,
  files: string[],
  log: Log,
) {
  const read = oneAtATime(async () => {
    const loaded = await again()
    if (closed) return
    watch.set(loaded.files)
    await reload(loaded)
  })
  const look = () =>
    void read().catch((error: Error) => log.error({ err: error.message }, 'the reload failed'))
  let closed = false
  const watch = watchFiles(look)
  watch.set(files)
  process.on('SIGHUP', look)
  return {
    close() {
      closed = true
      watch.close()
      process.off('SIGHUP', look)
    },
  }
}
