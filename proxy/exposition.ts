/** The proxy's metrics for Prometheus, computed at each scrape from the counters of the proxy. */
import type { Registry } from 'prom-client'
import { HistogramSeries } from '../opd/shared/histogram-series.ts'
import {
  busiest,
  byLabel,
  counter,
  gauge,
  histogram,
  type MetricRow,
  one,
  others,
  registerRows,
  type Sample,
} from '../opd/shared/metrics.ts'
import { bounds, type DurationHistogram, outcomes, type SupplierMetrics } from './metrics.ts'

export interface EndpointState {
  url: URL
  inFlight: number
  state: 'up' | 'failing' | 'ejected'
  pool: { open: number; idle: number }
}

export interface SupplierState {
  id: string
  inFlight: number
  clientQps: number | null
  active: boolean
  gate: { limit: number; queued: number }
  metrics: SupplierMetrics
  endpoints: { all: readonly EndpointState[] }
}

/** The state of the proxy that a scrape reads. */
export interface ProxyState {
  suppliers: () => Iterable<SupplierState>
  connections: () => number
  heldBytes: () => number
  maxHeldBytes: () => number
  /** gzip requests of which the whole body is decoded. */
  decoder: { running: number; waiting: number; bytes: number }
  /** Connections closed or refused by reason. */
  closed: ReadonlyMap<string, number>
}

/** The series of thousands of suppliers without traffic would be most of a scrape. */
export const hadTraffic = ({ inFlight, metrics }: SupplierState) =>
  inFlight > 0 || metrics.total > 0

function* outcomeSamples({ id, metrics }: SupplierState): Generator<Sample> {
  for (const [at, outcome] of outcomes.entries()) {
    const value = metrics.requests[at]!
    if (value > 0) yield { value, labels: { ssp: id, outcome } }
  }
}

function rowsOf(state: ProxyState, lag: () => number): MetricRow[] {
  /** Suppliers with all gauges. The others have those that differ from a supplier at rest. */
  let top: ReadonlySet<SupplierState> = new Set()
  function* outcomesOf() {
    top = yield* busiest(state.suppliers(), ({ metrics }) => metrics.total)
    yield* each(outcomeSamples)()
  }
  const isTop = (supplier: SupplierState) => top.has(supplier)
  const isBusy = (supplier: SupplierState) =>
    supplier.inFlight > 0 || (isTop(supplier) && hadTraffic(supplier))
  const isLimited = (supplier: SupplierState) => supplier.gate.queued > 0 || isTop(supplier)
  /** The samples of all suppliers that are shown. */
  const each = (
    samples: (supplier: SupplierState) => Iterable<Sample>,
    shown: (supplier: SupplierState) => boolean = () => true,
  ) =>
    function* () {
      for (const supplier of state.suppliers()) {
        if (shown(supplier)) yield* samples(supplier)
        yield null
      }
    }
  const perSupplier = (
    value: (supplier: SupplierState) => number,
    shown?: (supplier: SupplierState) => boolean,
  ) => each((supplier) => one(value(supplier), { ssp: supplier.id }), shown)
  const perEndpoint = (
    value: (endpoint: EndpointState) => number,
    shown?: (supplier: SupplierState) => boolean,
  ) =>
    each(
      ({ id, endpoints }) =>
        endpoints.all.map((endpoint) => ({
          value: value(endpoint),
          labels: { ssp: id, endpoint: endpoint.url.origin + endpoint.url.pathname },
        })),
      shown,
    )
  function durations(
    name: string,
    help: string,
    of: (metrics: SupplierMetrics) => DurationHistogram,
  ): MetricRow {
    const series = new HistogramSeries(name, bounds)
    function* histograms(): Generator<[{ ssp: string }, DurationHistogram]> {
      for (const { id, metrics } of state.suppliers()) yield [{ ssp: id }, of(metrics)]
    }
    return histogram(name, help, () => series.samples(histograms(), { ssp: others }))
  }

  return [
    durations(
      'bidweir_request_duration_seconds',
      'Time from the head of a bid request to its response',
      ({ duration }) => duration,
    ),
    durations(
      'bidweir_upstream_duration_seconds',
      'Time from sending to an endpoint to its complete response',
      ({ upstream }) => upstream,
    ),
    durations(
      'bidweir_overhead_seconds',
      'Time that the proxy itself added to a bid request',
      ({ overhead }) => overhead,
    ),
    counter(
      'bidweir_requests_total',
      'Bid requests by outcome; an outcome is absent until its first request',
      outcomesOf,
    ),
    counter(
      'bidweir_replays_total',
      'Requests sent once more on a new connection',
      perSupplier(
        ({ metrics }) => metrics.replays,
        ({ metrics }) => metrics.replays > 0,
      ),
    ),
    gauge(
      'bidweir_requests_in_flight',
      'Bid requests in flight',
      perSupplier(({ inFlight }) => inFlight, isBusy),
    ),
    gauge(
      'bidweir_supplier_limit',
      'Limit of requests that are at the supplier at once',
      perSupplier(({ gate }) => gate.limit, isLimited),
    ),
    gauge(
      'bidweir_supplier_queued',
      'Requests that wait because the supplier is at its limit',
      perSupplier(({ gate }) => gate.queued, isLimited),
    ),
    gauge(
      'bidweir_qps_allotment',
      'Queries per second allotted to this node',
      perSupplier(
        ({ clientQps }) => clientQps!,
        ({ clientQps }) => clientQps !== null,
      ),
    ),
    gauge(
      'bidweir_datacenter_active',
      '1 if this location takes bids of the supplier',
      perSupplier(
        ({ active }) => (active ? 1 : 0),
        (supplier) => !supplier.active || isTop(supplier),
      ),
    ),
    gauge(
      'bidweir_endpoint_up',
      '0 while an endpoint fails or is ejected',
      perEndpoint(
        ({ state }) => (state === 'up' ? 1 : 0),
        (supplier) => isTop(supplier) || supplier.endpoints.all.some(({ state }) => state !== 'up'),
      ),
    ),
    gauge(
      'bidweir_endpoint_in_flight',
      'Requests in flight to an endpoint',
      perEndpoint(({ inFlight }) => inFlight, isBusy),
    ),
    gauge(
      'bidweir_endpoint_connections',
      'Open connections to an endpoint',
      perEndpoint(
        ({ pool }) => pool.open,
        (supplier) => isTop(supplier) && hadTraffic(supplier),
      ),
    ),
    gauge('bidweir_connections', 'Connections of callers', () => one(state.connections())),
    gauge('bidweir_held_bytes', 'Bytes of bodies in memory', () => one(state.heldBytes())),
    gauge('bidweir_held_bytes_limit', 'Limit for the bytes of bodies in memory', () =>
      one(state.maxHeldBytes()),
    ),
    gauge(
      'bidweir_request_decodes',
      'gzip requests whose whole body is being decoded, or that wait for it',
      () => {
        const { running, waiting } = state.decoder
        return byLabel('state', Object.entries({ running, waiting }))
      },
    ),
    counter('bidweir_request_decoded_bytes_total', 'Bytes decoded from gzip requests', () =>
      one(state.decoder.bytes),
    ),
    counter('bidweir_connections_closed_total', 'Connections closed or refused, by reason', () =>
      byLabel('reason', state.closed),
    ),
    gauge(
      'bidweir_event_loop_lag_seconds',
      'The largest lag of the event loop since the last scrape',
      () => one(lag()),
    ),
  ]
}

/** Registers all metrics. `lag` records the lag of the event loop, `takeLag` returns the largest since its last call. */
export function bindMetrics(registry: Registry, state: ProxyState) {
  let worst = 0
  const takeLag = () => {
    const largest = worst
    worst = 0
    return largest
  }
  registerRows(registry, rowsOf(state, takeLag))
  return {
    lag(seconds: number): void {
      worst = Math.max(worst, seconds)
    },
    takeLag,
  }
}
