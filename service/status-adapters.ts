/** Status of engine and proxy for the admin listener, and the metrics of the whole process. */
import { collectDefaultMetrics, Histogram, type Registry } from 'prom-client'
import type { LiveState } from '../admin/fleet/live.ts'
import { programVersion } from '../admin/http/version.ts'
import type { Integration, OpdConfig } from '../opd/config.ts'
import { gauge, one, registerRows } from '../opd/shared/metrics.ts'
import { bounds } from '../proxy/metrics.ts'
import type { BidProxy } from '../proxy/proxy.ts'
import { createReloadMeter } from './metrics/reloads.ts'

/** The OPD state of an integration, from its configuration. */
export function opdState(integration: Integration | null): LiveState | null {
  if (integration === null) return null
  const { opd } = integration
  const none = { mode: 'revenue', minWinRate: 0, minSpend: 0 } as const
  if (opd === 'invalid') return { state: 'invalid', ...none }
  if (opd === null) return { state: 'off', ...none }
  const { enabled, mode, minWinRate, minSpend } = opd
  const state = enabled === false ? 'off' : enabled === 'shadow' ? 'shadow' : 'on'
  return { state, mode, minWinRate, minSpend }
}

/** The opd block of an integration that prices or would price; null: OPD is off. */
export function activeOpd(integration: Integration | null): OpdConfig | null {
  const opd = integration?.opd ?? null
  return opd === null || opd === 'invalid' || opd.enabled === false ? null : opd
}

export function endpointsOf(proxy: BidProxy, id: string) {
  const all = proxy.suppliers.get(id)?.endpoints.all ?? []
  return all.map(({ url, state, failures }) => ({
    url: url.origin + url.pathname,
    ...{ state, failures },
  }))
}

export function bindServiceMetrics(registry: Registry, ratesAgeOf: () => number | null) {
  collectDefaultMetrics({ register: registry })
  // These gauges have names of counters; the same figures are in the metrics by type.
  for (const name of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`nodejs_active_${name}_total`)
  const version = programVersion()
  const life = { draining: false }
  registerRows(registry, [
    gauge('bidweir_draining', '1 from the signal to end until the end of the process', () =>
      one(Number(life.draining)),
    ),
    gauge('bidweir_build_info', '1; the labels name the running version', () =>
      one(1, { version, node: process.versions.node }),
    ),
    gauge(
      'bidweir_rates_age_seconds',
      'Age of the exchange rates by their asOf; absent if they have none',
      () => {
        const age = ratesAgeOf()
        return age === null ? [] : one(age / 1000)
      },
    ),
  ])
  const store = new Histogram({
    name: 'bidweir_store_commit_seconds',
    help: 'Commits of the impression ledger',
    buckets: bounds.filter((bound) => bound >= 0.0005 && bound <= 1),
    registers: [registry],
  })
  return { reloads: createReloadMeter(registry), store, life }
}
