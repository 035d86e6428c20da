/** Engine and proxy of a process, and how a configuration is applied to both. */

import type { Log } from '../opd/base/log.ts'
import type { Slices } from '../opd/base/slices.ts'
import type { Integration } from '../opd/config.ts'
import { createEngine } from '../opd/engine/engine.ts'
import { trainedPerSecond } from '../opd/pricing/pricing.ts'
import type { EngineSettings } from '../opd/types.ts'
import { createProxy } from '../proxy/proxy.ts'
import type { DirectoryState } from '../proxy/supplier.ts'
import type { UnhealthyEndpoints } from '../proxy/suppliers.ts'
import type { Config, SupplierConfig } from './config/schema.ts'
import { dividedConfig, dividedRoute, type Place } from './limits.ts'

interface ActiveSupplier {
  supplier: SupplierConfig
  /** Its `opd` block has faults. Only a start accepts that. */
  invalid: boolean
}

/** The current configuration. A reload replaces it. */
export interface ConfigRef {
  config: Config
  /** Suppliers by id. During a reload some are newer than `config`. */
  active: Map<string, ActiveSupplier>
}

/** The state of the suppliers at this location, from the directory. */
export interface LocationState {
  states: Map<string, DirectoryState>
  holds: ReadonlySet<string>
  /** Suppliers whose money cannot be checked. */
  unchecked: ReadonlySet<string>
  /** 1 / live nodes. */
  share: number
  /** Endpoints that fail the health checks of the first process. */
  unhealthy: UnhealthyEndpoints
}

export type KeyRows = NonNullable<Config['opd']['keys']>

interface BidPathParts {
  current: ConfigRef
  place: Place
  /** The context keys of a configuration. */
  keysOf: (config: Config) => KeyRows
  /** Milliseconds since the epoch, the same on all nodes. */
  now: () => number
  log: Log
  engine: Pick<
    Parameters<typeof createEngine>[1],
    'learners' | 'bidLog' | 'observer' | 'shared' | 'sink'
  >
  proxy: Pick<
    Parameters<typeof createProxy>[2],
    | ('registry' | 'sharedTokens' | 'sharesPort' | 'others' | 'tracer' | 'tickets')
    | ('checksHealth' | 'onHealth' | 'onTick')
  >
}

/**
 * Engine and proxy of one process, and what applies configurations and the directory to both.
 *
 * @param parts `now`: milliseconds since the epoch, the same on all nodes; `place`: which part of the node's limits is this
 * process's
 */
export function createBidPath({ current, place, keysOf, now, log, ...parts }: BidPathParts) {
  const started = current.config
  const settingsOf = (config: Config): EngineSettings => ({
    keys: keysOf(config).map(({ id, secret }) => ({
      id,
      secret: Buffer.from(secret, 'base64url'),
    })),
    // A learner cannot change it.
    attributionWindow: started.opd.attributionWindow,
    contextTtl: config.opd.contextTtl,
    rates: config.currency.rates ?? null,
    base: config.currency.base,
  })
  const engine = createEngine(
    { ...settingsOf(started), integrations: [...current.active.values()].map(integrationOf) },
    {
      ...parts.engine,
      log,
      now,
      random: Math.random,
      trainedPerSecond: trainedPerSecond / place.count,
    },
  )
  const proxy = createProxy(
    dividedConfig(started.proxy, place),
    started.suppliers.map((supplier) => dividedRoute(supplier, place)),
    { ...parts.proxy, engine, log, zone: started.node.zone ?? null },
  )
  const targets = {
    set(active: ActiveSupplier) {
      const { supplier } = active
      engine.setIntegration(integrationOf(active))
      proxy.setRoute(dividedRoute(supplier, place))
    },
    remove(id: string) {
      engine.removeIntegration(id)
      proxy.removeRoute(id)
    },
  }
  return {
    engine,
    proxy,
    setLocation({ states, holds, unchecked, share, unhealthy }: LocationState): void {
      engine.setHolds(holds)
      engine.setUnchecked(unchecked)
      proxy.setDirectory((id) => states.get(id), share / place.count)
      if (place.index > 0) proxy.setUnhealthy(unhealthy)
    },
    /**
     * Applies another configuration, in time slices; returns the suppliers that have changed. `invalid`: those whose
     * `opd` block has faults, which only a start accepts.
     */
    async configure(
      config: Config,
      slices: Slices,
      invalid: ReadonlySet<string>,
    ): Promise<SupplierConfig[]> {
      engine.configure(settingsOf(config))
      proxy.configure(dividedConfig(config.proxy, place))
      const changed = await swapSuppliers(
        current.active,
        config.suppliers,
        targets,
        slices,
        invalid,
      )
      current.config = config
      return changed
    },
  }
}

function integrationOf({ supplier, invalid }: ActiveSupplier): Integration {
  const { id, opd, notices, clearing } = supplier
  return { id, notices, clearing, opd: invalid ? 'invalid' : (opd ?? null) }
}

/**
 * The suppliers of a configuration by id.
 *
 * @param invalidOpd ids whose `opd` block has faults: OPD is off for them
 */
export const activeSuppliers = (
  suppliers: readonly SupplierConfig[],
  invalidOpd: ReadonlySet<string>,
) =>
  new Map(
    suppliers.map((supplier): [string, ActiveSupplier] => [
      supplier.id,
      { supplier, invalid: invalidOpd.has(supplier.id) },
    ]),
  )

/**
 * Makes `active` equal to `next`, and returns the suppliers that have changed: those that are other objects than before.
 * `targets` are synchronous, so that no request sees the new supplier in one component and the old one in another.
 */
export async function swapSuppliers(
  active: Map<string, ActiveSupplier>,
  next: readonly SupplierConfig[],
  targets: { set(active: ActiveSupplier): void; remove(id: string): void },
  slices: Slices,
  invalid: ReadonlySet<string>,
): Promise<SupplierConfig[]> {
  const changed: SupplierConfig[] = []
  const removed = new Set(active.keys())
  for (const supplier of next) {
    const { id } = supplier
    removed.delete(id)
    const before = active.get(id)
    const after: ActiveSupplier = { supplier, invalid: invalid.has(id) }
    if (before?.supplier !== supplier || before.invalid !== after.invalid) {
      targets.set(after)
      active.set(id, after)
      changed.push(supplier)
    }
    // Not awaited where there is nothing to wait for: nearly all of thousands have not changed.
    const pause = slices.next()
    if (pause !== undefined) await pause
  }
  for (const id of removed) {
    targets.remove(id)
    active.delete(id)
    await slices.next()
  }
  return changed
}
