/** The proxy's metrics for Prometheus, computed at each scrape from the counters of the proxy. */
import { Gauge, type Registry } from 'prom-client'
import { HistogramSeries, others } from '../opd/shared/histogram-series.ts'
import { bounds, type DurationHistogram, outcomes, type SupplierMetrics } from './metrics.ts'

interface EndpointState {
  url: URL
  inFlight: number
  state: 'up' | 'failing' | 'ejected'
  pool: { open: number; idle: number }
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

interface Sample {
  value: number
  labels: Record<string, string | number>
  metricName?: string
}

interface Row {
  name: string
  help: string
  type: 'counter' | 'histogram' | 'gauge'
  /** null: not a sample, but a point at which a slice may end. */
  samples(state: ProxyState): Iterable<Sample | null>
}

/** The samples of all suppliers, each with its label. */
const each = (
  samples: (supplier: SupplierState, ssp: { ssp: string }) => Iterable<Sample>,
): Row['samples'] =>
  function* (state) {
    for (const supplier of state.suppliers()) {
      yield* samples(supplier, { ssp: supplier.id })
      yield null
    }
  }

const ofSupplier = (
  value: (supplier: SupplierState) => number,
  shows: (supplier: SupplierState) => boolean = () => true,
) => each((supplier, labels) => (shows(supplier) ? [{ value: value(supplier), labels }] : []))

const ofEndpoint = (
  value: (endpoint: EndpointState) => number,
  shows: (supplier: SupplierState) => boolean = () => true,
) =>
  each((supplier, ssp) =>
    (shows(supplier) ? supplier.endpoints.all : []).map((endpoint) => ({
      value: value(endpoint),
      labels: { ...ssp, endpoint: endpoint.url.origin + endpoint.url.pathname },
    })),
  )

/** The series of thousands of suppliers without traffic would be most of a scrape. */
const hadTraffic = ({ inFlight, metrics }: SupplierState) =>
  inFlight > 0 || metrics.requests.some((count) => count > 0)

function histogram(
  name: string,
  help: string,
  buckets: (metrics: SupplierMetrics) => DurationHistogram,
): () => Row {
  return () => {
    const series = new HistogramSeries(name, bounds)
    function* histograms(state: ProxyState) {
      for (const { id, metrics } of state.suppliers())
        yield [{ ssp: id }, buckets(metrics)] as [{ ssp: string }, DurationHistogram]
    }
    const samples = (state: ProxyState) => series.samples(histograms(state), { ssp: others })
    return { name, help, type: 'histogram', samples }
  }
}

const histograms = [
  histogram(
    'bidweir_request_duration_seconds',
    'From the head of a bid request to its response',
    ({ duration }) => duration,
  ),
  histogram(
    'bidweir_upstream_duration_seconds',
    'From sending to an endpoint to its complete response',
    ({ upstream }) => upstream,
  ),
  histogram(
    'bidweir_overhead_seconds',
    'Time that the proxy itself added to a bid request',
    ({ overhead }) => overhead,
  ),
]

const rows: readonly Row[] = [
  {
    name: 'bidweir_requests_total',
    help: 'Bid requests by outcome; an outcome is absent until its first request',
    type: 'counter',
    samples: each(function* ({ metrics }, ssp) {
      for (const [at, outcome] of outcomes.entries()) {
        const value = metrics.requests[at]!
        if (value > 0) yield { value, labels: { ...ssp, outcome } }
      }
    }),
  },
  {
    name: 'bidweir_replays_total',
    help: 'Requests sent once more on a new connection',
    type: 'counter',
    samples: ofSupplier(
      ({ metrics }) => metrics.replays,
      ({ metrics }) => metrics.replays > 0,
    ),
  },
  {
    name: 'bidweir_requests_in_flight',
    help: 'Bid requests in flight',
    type: 'gauge',
    samples: ofSupplier(({ inFlight }) => inFlight, hadTraffic),
  },
  {
    name: 'bidweir_supplier_limit',
    help: 'Requests that may be at the supplier at once',
    type: 'gauge',
    samples: ofSupplier(({ gate }) => gate.limit),
  },
  {
    name: 'bidweir_supplier_queued',
    help: 'Requests that wait for a place at the supplier',
    type: 'gauge',
    samples: ofSupplier(({ gate }) => gate.queued),
  },
  {
    name: 'bidweir_qps_allotment',
    help: 'Queries per second allotted to this node',
    type: 'gauge',
    samples: ofSupplier(
      ({ clientQps }) => clientQps!,
      ({ clientQps }) => clientQps !== null,
    ),
  },
  {
    name: 'bidweir_datacenter_active',
    help: '1 where this location takes bids of the supplier',
    type: 'gauge',
    samples: ofSupplier(({ active }) => (active ? 1 : 0)),
  },
  {
    ...{
      name: 'bidweir_endpoint_up',
      help: '0 while an endpoint fails or is ejected',
      type: 'gauge',
    },
    samples: ofEndpoint(({ state }) => (state === 'up' ? 1 : 0)),
  },
  {
    name: 'bidweir_endpoint_in_flight',
    help: 'Requests in flight to an endpoint',
    type: 'gauge',
    samples: ofEndpoint(({ inFlight }) => inFlight, hadTraffic),
  },
  {
    name: 'bidweir_endpoint_connections',
    help: 'Open connections to an endpoint',
    type: 'gauge',
    samples: ofEndpoint(({ pool }) => pool.open, hadTraffic),
  },
  {
    name: 'bidweir_connections',
    help: 'Connections of callers',
    type: 'gauge',
    samples: (state) => [{ value: state.connections(), labels: {} }],
  },
  {
    name: 'bidweir_held_bytes',
    help: 'Bytes of bodies in memory',
    type: 'gauge',
    samples: (state) => [{ value: state.heldBytes(), labels: {} }],
  },
  {
    name: 'bidweir_held_bytes_limit',
    help: 'Limit for the bytes of bodies in memory',
    type: 'gauge',
    samples: (state) => [{ value: state.maxHeldBytes(), labels: {} }],
  },
  {
    name: 'bidweir_request_decodes',
    help: 'gzip requests whose whole body is being decoded, or that wait for it',
    type: 'gauge',
    samples: ({ decoder: { running, waiting } }) =>
      Object.entries({ running, waiting }).map(([state, value]) => ({ value, labels: { state } })),
  },
  {
    name: 'bidweir_request_decoded_bytes_total',
    help: 'Bytes decoded from gzip requests',
    type: 'counter',
    samples: ({ decoder }) => [{ value: decoder.bytes, labels: {} }],
  },
  {
    name: 'bidweir_connections_closed_total',
    help: 'Connections closed or refused, by reason',
    type: 'counter',
    samples: ({ closed }) => [...closed].map(([reason, value]) => ({ value, labels: { reason } })),
  },
]

/** Registers all metrics. The returned function records the lag of the event loop, in seconds. */
export function bindMetrics(registry: Registry, state: ProxyState) {
  for (const { name, help, type, samples } of [...histograms.map((make) => make()), ...rows]) {
    const aggregator = 'sum' as const
    const metric = {
      name,
      help,
      type,
      aggregator,
      // bidweir's own scrape reads these in slices; prom-client itself calls `get`.
      samples: () => samples(state),
      get: async () => ({
        name,
        help,
        type,
        aggregator,
        values: [...samples(state)].filter((sample) => sample !== null),
      }),
      reset: () => {},
    }
    registry.registerMetric(metric as unknown as Gauge)
  }
  const lag = new Gauge({
    name: 'bidweir_event_loop_lag_seconds',
    help: 'The largest lag of the event loop since the last scrape',
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
