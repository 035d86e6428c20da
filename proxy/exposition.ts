/** The path's metrics as Prometheus sees them: made at the scrape from counters and gauges that stand anyway. */
import { Gauge, type Registry } from 'prom-client'
import { type Buckets, bounds, outcomes, type SupplierMetrics } from './metrics.ts'

interface EndpointState {
  url: URL
  inFlight: number
  state: 'up' | 'failing' | 'ejected'
  connections: { open: number; idle: number }
}

interface SupplierState {
  id: string
  inFlight: number
  clientQps: number | null
  active: boolean
  gate: { limit: number; queued: number }
  metrics: SupplierMetrics
  endpoints: { all: readonly EndpointState[] }
}

/** What the gauges of the path read at a scrape. */
export interface PathState {
  suppliers: () => Iterable<SupplierState>
  connections: () => number
  heldBytes: () => number
  maxHeldBytes: () => number
  /** gzip requests that are decoded whole. */
  decoder: { running: number; waiting: number; bytes: number }
  /** Connections closed or refused by reason. */
  closed: ReadonlyMap<string, number>
}

interface Sample {
  value: number
  labels: Record<string, string | number>
  metricName?: string
}

interface Row {
  name: string
  help: string
  type: 'counter' | 'histogram' | 'gauge'
  values(state: PathState): Sample[]
}

/** Samples of each supplier, with its label. */
const each =
  (samples: (supplier: SupplierState, ssp: { ssp: string }) => Sample[]): Row['values'] =>
  (state) =>
    [...state.suppliers()].flatMap((supplier) => samples(supplier, { ssp: supplier.id }))

const ofSupplier = (value: (supplier: SupplierState) => number): Row['values'] =>
  each((supplier, labels) => [{ value: value(supplier), labels }])

const ofEndpoint = (value: (endpoint: EndpointState) => number): Row['values'] =>
  each((supplier, ssp) =>
    supplier.endpoints.all.map((endpoint) => ({
      value: value(endpoint),
      labels: { ...ssp, endpoint: endpoint.url.origin + endpoint.url.pathname },
    })),
  )

function histogram(
  name: string,
  help: string,
  buckets: (metrics: SupplierMetrics) => Buckets,
): Row {
  return {
    ...{ name, help, type: 'histogram' },
    values: each(({ metrics }, labels) => {
      const { counts, sum } = buckets(metrics)
      let total = 0
      const samples: Sample[] = [...counts].map((count, at) => {
        total += count
        const le = bounds[at] ?? '+Inf'
        return { value: total, labels: { ...labels, le }, metricName: `${name}_bucket` }
      })
      samples.push({ value: sum, labels, metricName: `${name}_sum` })
      samples.push({ value: total, labels, metricName: `${name}_count` })
      return samples
    }),
  }
}

const rows: readonly Row[] = [
  {
    ...{ name: 'bidweir_requests_total', help: 'Bid requests by outcome', type: 'counter' },
    values: each(({ metrics }, ssp) =>
      outcomes.map((outcome, at) => ({
        value: metrics.requests[at]!,
        labels: { ...ssp, outcome },
      })),
    ),
  },
  histogram(
    'bidweir_request_duration_seconds',
    'From the head of a bid request to its answer',
    ({ duration }) => duration,
  ),
  histogram(
    'bidweir_upstream_duration_seconds',
    'From sending to an endpoint to its whole answer',
    ({ upstream }) => upstream,
  ),
  histogram(
    'bidweir_overhead_seconds',
    'What the proxy itself added to a bid request',
    ({ overhead }) => overhead,
  ),
  {
    name: 'bidweir_replays_total',
    help: 'Requests sent once more on a new connection',
    type: 'counter',
    values: ofSupplier(({ metrics }) => metrics.replays),
  },
  {
    ...{ name: 'bidweir_requests_in_flight', help: 'Bid requests in flight', type: 'gauge' },
    values: ofSupplier(({ inFlight }) => inFlight),
  },
  {
    name: 'bidweir_supplier_limit',
    help: 'Requests that may be at the supplier at once',
    type: 'gauge',
    values: ofSupplier(({ gate }) => gate.limit),
  },
  {
    name: 'bidweir_supplier_queued',
    help: 'Requests that wait for a place at the supplier',
    type: 'gauge',
    values: ofSupplier(({ gate }) => gate.queued),
  },
  {
    name: 'bidweir_qps_allotment',
    help: 'Queries per second allotted to this node',
    type: 'gauge',
    values: each(({ clientQps }, labels) =>
      clientQps === null ? [] : [{ value: clientQps, labels }],
    ),
  },
  {
    name: 'bidweir_datacenter_active',
    help: '1 where this location takes bids of the supplier',
    type: 'gauge',
    values: ofSupplier(({ active }) => (active ? 1 : 0)),
  },
  {
    ...{
      name: 'bidweir_endpoint_up',
      help: '0 while an endpoint fails or is ejected',
      type: 'gauge',
    },
    values: ofEndpoint(({ state }) => (state === 'up' ? 1 : 0)),
  },
  {
    name: 'bidweir_endpoint_in_flight',
    help: 'Requests in flight to an endpoint',
    type: 'gauge',
    values: ofEndpoint(({ inFlight }) => inFlight),
  },
  {
    name: 'bidweir_endpoint_connections',
    help: 'Open connections to an endpoint',
    type: 'gauge',
    values: ofEndpoint(({ connections }) => connections.open),
  },
  {
    ...{ name: 'bidweir_connections', help: 'Connections of callers', type: 'gauge' },
    values: (state) => [{ value: state.connections(), labels: {} }],
  },
  {
    ...{ name: 'bidweir_held_bytes', help: 'Bytes of bodies held in memory', type: 'gauge' },
    values: (state) => [{ value: state.heldBytes(), labels: {} }],
  },
  {
    name: 'bidweir_held_bytes_limit',
    help: 'Bytes of bodies that may be held in memory',
    type: 'gauge',
    values: (state) => [{ value: state.maxHeldBytes(), labels: {} }],
  },
  {
    name: 'bidweir_request_decodes',
    help: 'gzip requests that are decoded whole at the moment, or wait for it',
    type: 'gauge',
    values: ({ decoder: { running, waiting } }) =>
      Object.entries({ running, waiting }).map(([state, value]) => ({ value, labels: { state } })),
  },
  {
    name: 'bidweir_request_decoded_bytes_total',
    help: 'Bytes that decoding gzip requests has made',
    type: 'counter',
    values: ({ decoder }) => [{ value: decoder.bytes, labels: {} }],
  },
  {
    name: 'bidweir_connections_closed_total',
    help: 'Connections closed or refused, by reason',
    type: 'counter',
    values: ({ closed }) => [...closed].map(([reason, value]) => ({ value, labels: { reason } })),
  },
]

/** Registers the rows; returns where the lateness of the event loop is reported, in seconds. */
export function bindMetrics(registry: Registry, state: PathState) {
  for (const { name, help, type, values } of rows) {
    const aggregator = 'sum' as const
    const metric = {
      ...{ name, help, type, aggregator },
      get: async () => ({ name, help, type, aggregator, values: values(state) }),
      reset: () => {},
    }
    registry.registerMetric(metric as unknown as Gauge)
  }
  const lag = new Gauge({
    name: 'bidweir_event_loop_lag_seconds',
    help: 'The worst lateness of the event loop since the last scrape',
    registers: [registry],
  })
  let worst = 0
  lag.set(0)
  const get = lag.get.bind(lag)
  lag.get = async () => {
    lag.set(worst)
    worst = 0
    return get()
  }
  return {
    lag(seconds: number): void {
      worst = Math.max(worst, seconds)
    },
  }
}
