/**
 * Metrics of the path. Requests touch typed arrays only; prom-client reads them at a scrape
 * (an observe of prom-client costs 0.25 us, an add to a Float64Array next to nothing).
 */
import { Gauge, type Registry } from 'prom-client'

export const outcomes = [
  'answer',
  'no_bid',
  'inactive',
  'qps',
  'unreadable',
  'overload',
  'timeout',
  'upstream_error',
  'client_abort',
  'refused',
] as const
export type Outcome = (typeof outcomes)[number]
const outcomeAt = Object.fromEntries(outcomes.map((name, at) => [name, at])) as Record<
  Outcome,
  number
>

/** Seconds. */
const bounds = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
]

class Buckets {
  readonly counts = new Float64Array(bounds.length + 1)
  sum = 0

  observe(seconds: number): void {
    let at = 0
    while (at < bounds.length && seconds > bounds[at]!) at++
    this.counts[at]!++
    this.sum += seconds
  }
}

export class SupplierMetrics {
  readonly requests = new Float64Array(outcomes.length)
  readonly duration = new Buckets()
  readonly upstream = new Buckets()
  readonly overhead = new Buckets()
  replays = 0

  /** One finished request; all in milliseconds, `upstreamMs` 0 where nothing was sent. */
  finished(outcome: Outcome, totalMs: number, upstreamMs: number): void {
    this.requests[outcomeAt[outcome]]!++
    this.duration.observe(totalMs / 1000)
    if (upstreamMs === 0) return
    this.upstream.observe(upstreamMs / 1000)
    this.overhead.observe(Math.max(0, totalMs - upstreamMs) / 1000)
  }
}

type Labels = Record<string, string | number>
interface Sample {
  value: number
  labels: Labels
  metricName?: string
}

/** A metric of prom-client's registry whose values are made at the scrape. */
function collected(
  registry: Registry,
  name: string,
  help: string,
  type: 'counter' | 'histogram' | 'gauge',
  values: () => Sample[],
): void {
  const metric = {
    name,
    help,
    type,
    aggregator: 'sum' as const,
    get: async () => ({ name, help, type, aggregator: 'sum' as const, values: values() }),
    reset: () => {},
  }
  registry.registerMetric(metric as unknown as Gauge)
}

function histogram(name: string, labels: Labels, buckets: Buckets): Sample[] {
  const samples: Sample[] = []
  let total = 0
  for (let at = 0; at <= bounds.length; at++) {
    total += buckets.counts[at]!
    const le = at === bounds.length ? '+Inf' : bounds[at]!
    samples.push({ value: total, labels: { ...labels, le }, metricName: `${name}_bucket` })
  }
  samples.push({ value: buckets.sum, labels, metricName: `${name}_sum` })
  samples.push({ value: total, labels, metricName: `${name}_count` })
  return samples
}

/** What the gauges of the path read at a scrape. */
export interface PathState {
  suppliers: () => Iterable<{
    id: string
    inFlight: number
    clientQps: number | null
    active: boolean
    metrics: SupplierMetrics
    endpoints: {
      all: readonly {
        url: URL
        inFlight: number
        ejected: boolean
        ejections: number
        connections: { open: number; idle: number }
      }[]
    }
  }>
  connections: () => number
  heldBytes: () => number
  /** Connections closed or refused by reason. */
  closed: ReadonlyMap<string, number>
}

const histograms = [
  ['bidweir_request_duration_seconds', 'From the head of a bid request to its answer', 'duration'],
  [
    'bidweir_upstream_duration_seconds',
    'From sending to an endpoint to its whole answer',
    'upstream',
  ],
  ['bidweir_overhead_seconds', 'What the proxy itself added to a bid request', 'overhead'],
] as const

export function bindMetrics(registry: Registry, state: PathState) {
  const each =
    (
      samples: (
        supplier: ReturnType<PathState['suppliers']> extends Iterable<infer S> ? S : never,
      ) => Sample[],
    ) =>
    () =>
      [...state.suppliers()].flatMap(samples)

  collected(
    registry,
    'bidweir_requests_total',
    'Bid requests by outcome',
    'counter',
    each((supplier) =>
      outcomes.map((outcome, at) => ({
        value: supplier.metrics.requests[at]!,
        labels: { ssp: supplier.id, outcome },
      })),
    ),
  )
  for (const [name, help, key] of histograms)
    collected(
      registry,
      name,
      help,
      'histogram',
      each((supplier) => histogram(name, { ssp: supplier.id }, supplier.metrics[key])),
    )
  collected(
    registry,
    'bidweir_replays_total',
    'Requests sent once more on a new connection',
    'counter',
    each((supplier) => [{ value: supplier.metrics.replays, labels: { ssp: supplier.id } }]),
  )
  collected(
    registry,
    'bidweir_requests_in_flight',
    'Bid requests in flight',
    'gauge',
    each((supplier) => [{ value: supplier.inFlight, labels: { ssp: supplier.id } }]),
  )
  collected(
    registry,
    'bidweir_qps_allotment',
    'Queries per second allotted to this node',
    'gauge',
    each((supplier) =>
      supplier.clientQps === null
        ? []
        : [{ value: supplier.clientQps, labels: { ssp: supplier.id } }],
    ),
  )
  collected(
    registry,
    'bidweir_datacenter_active',
    '1 where this location takes bids of the supplier',
    'gauge',
    each((supplier) => [{ value: supplier.active ? 1 : 0, labels: { ssp: supplier.id } }]),
  )
  const endpointGauge = (
    name: string,
    help: string,
    value: (endpoint: {
      inFlight: number
      ejected: boolean
      connections: { open: number; idle: number }
    }) => number,
  ) =>
    collected(
      registry,
      name,
      help,
      'gauge',
      each((supplier) =>
        supplier.endpoints.all.map((endpoint) => ({
          value: value(endpoint),
          labels: { ssp: supplier.id, endpoint: endpoint.url.origin + endpoint.url.pathname },
        })),
      ),
    )
  endpointGauge('bidweir_endpoint_up', '0 while an endpoint is ejected', (endpoint) =>
    endpoint.ejected ? 0 : 1,
  )
  endpointGauge(
    'bidweir_endpoint_in_flight',
    'Requests in flight to an endpoint',
    (endpoint) => endpoint.inFlight,
  )
  endpointGauge(
    'bidweir_endpoint_connections',
    'Open connections to an endpoint',
    (endpoint) => endpoint.connections.open,
  )
  collected(registry, 'bidweir_connections', 'Connections of callers', 'gauge', () => [
    { value: state.connections(), labels: {} },
  ])
  collected(registry, 'bidweir_held_bytes', 'Bytes of bodies held in memory', 'gauge', () => [
    { value: state.heldBytes(), labels: {} },
  ])
  collected(
    registry,
    'bidweir_connections_closed_total',
    'Connections closed or refused, by reason',
    'counter',
    () => [...state.closed].map(([reason, value]) => ({ value, labels: { reason } })),
  )

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
  return { lag: (seconds: number) => (worst = Math.max(worst, seconds)) }
}
