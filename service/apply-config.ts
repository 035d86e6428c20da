/** Applies a configuration to the engine and the proxy of a process. */
import type { ContextKey } from '../opd/config.ts'
import type { Engine } from '../opd/engine/types.ts'
import type { Slices } from '../opd/shared/slices.ts'
import type { BidProxy } from '../proxy/proxy.ts'
import type { Config } from './config/schema.ts'
import { engineSettings, integrationOf, routeOf } from './runtime-config.ts'
import { type ActiveSupplier, type SupplierTargets, swapSuppliers } from './supplier-swap.ts'
import { dividedConfig, dividedRoute, type Place } from './workers/limits.ts'

/** The current configuration. A reload replaces it. */
export interface ConfigRef {
  config: Config
  /** Suppliers by id. During a reload some are newer than `config`. */
  active: Map<string, ActiveSupplier>
}

interface ConfigTargets {
  engine: Engine
  proxy: BidProxy
  place: Place
  /** The value at the start: a learner cannot change it. */
  attributionWindow: number
}

/** In time slices. */
export async function applyConfig(
  current: ConfigRef,
  config: Config,
  keys: readonly ContextKey[],
  { engine, proxy, place, attributionWindow }: ConfigTargets,
  slices: Slices,
): Promise<void> {
  engine.configure(engineSettings(config, keys, attributionWindow))
  proxy.configure(dividedConfig(config.proxy, place))
  const targets: SupplierTargets = {
    set(supplier) {
      engine.setIntegration(integrationOf(supplier, false))
      proxy.setRoute(dividedRoute(routeOf(supplier), place))
    },
    remove(id) {
      engine.removeIntegration(id)
      proxy.removeRoute(id)
    },
  }
  await swapSuppliers(current.active, config.suppliers, targets, slices)
  current.config = config
}
