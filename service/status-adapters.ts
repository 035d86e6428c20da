/** Status of engine and proxy for the admin listener, and the metrics of the whole process. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, type Registry } from 'prom-client'
import type { LiveState } from '../admin/dashboard/route.ts'
import { programVersion } from '../admin/http/openapi/version.ts'
import type { Integration } from '../opd/config.ts'
import { bounds, outcomes } from '../proxy/metrics.ts'
import type { BidProxy } from '../proxy/proxy.ts'

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
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  // These gauges have names of counters; the same figures are in the metrics by type.
  for (const name of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`nodejs_active_${name}_total`)
  new Gauge({
    name: 'bidweir_build_info',
    help: '1; the labels name the running version',
    labelNames: ['version', 'node'],
    registers,
  }).set({ version: programVersion(), node: process.versions.node }, 1)
  const reloads = new Counter({
    name: 'bidweir_config_reloads_total',
    help: 'Reloads of the configuration, by result',
    labelNames: ['result'],
    registers,
  })
  const store = new Histogram({
    name: 'bidweir_store_commit_seconds',
    help: 'Commits of the impression ledger',
    buckets: bounds.filter((bound) => bound >= 0.0005 && bound <= 1),
    registers,
  })
  new Gauge({
    name: 'bidweir_rates_age_seconds',
    help: 'Age of the exchange rates by their asOf; absent if they have none',
    registers,
    collect() {
      const age = ratesAgeOf()
      if (age === null) this.remove()
      else this.set(age / 1000)
    },
  })
  return { reloads, store }
}
