/** Status of engine and proxy for the admin listener, and the metrics of the whole process. */
import { collectDefaultMetrics, Histogram, type Registry } from 'prom-client'
import type { LiveState } from '../admin/dashboard/route.ts'
import { programVersion } from '../admin/http/openapi/version.ts'
import type { Integration } from '../opd/config.ts'
import { one, registerRows } from '../opd/shared/metrics.ts'
import { bounds, outcomes } from '../proxy/metrics.ts'
import type { BidProxy } from '../proxy/proxy.ts'
import { createReloadMeter } from './metrics/reloads.ts'

const refusedForQps = outcomes.indexOf('qps')

/** The OPD state of an integration, from its configuration. */
export function opdState(integration: Integration | null): LiveState | null {
  if (integration === null) return null
  const { opd } = integration
  if (opd === 'invalid') return { state: 'invalid', mode: 'revenue' }
  if (opd === null || opd.enabled === false) return { state: 'off', mode: opd?.mode ?? 'revenue' }
  return { state: opd.enabled === 'shadow' ? 'shadow' : 'on', mode: opd.mode }
}

export function endpointsOf(proxy: BidProxy, id: string) {
  const all = proxy.suppliers.get(id)?.endpoints.all ?? []
  return all.map(({ url, state, failures }) => ({
    url: url.origin + url.pathname,
    ...{ state, failures },
  }))
}

export function allotmentOf(proxy: BidProxy, id: string) {
  const supplier = proxy.suppliers.get(id)
  return supplier === undefined
    ? null
    : { qps: supplier.clientQps, refused: supplier.metrics.requests[refusedForQps]! }
}

export function bindServiceMetrics(registry: Registry, ratesAgeOf: () => number | null) {
  collectDefaultMetrics({ register: registry })
  // These gauges have names of counters; the same figures are in the metrics by type.
  for (const name of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`nodejs_active_${name}_total`)
  const version = programVersion()
  registerRows(registry, [
    [
      'bidweir_build_info',
      'gauge',
      '1; the labels name the running version',
      () => one(1, { version, node: process.versions.node }),
    ],
    [
      'bidweir_rates_age_seconds',
      'gauge',
      'Age of the exchange rates by their asOf; absent if they have none',
      () => {
        const age = ratesAgeOf()
        return age === null ? [] : one(age / 1000)
      },
    ],
  ])
  const store = new Histogram({
    name: 'bidweir_store_commit_seconds',
    help: 'Commits of the impression ledger',
    buckets: bounds.filter((bound) => bound >= 0.0005 && bound <= 1),
    registers: [registry],
  })
  return { reloads: createReloadMeter(registry), store }
}
