/** The proxy's metrics for Prometheus, computed at each scrape from the counters of the proxy. */
import type { Registry } from 'prom-client'
import { HistogramSeries } from '../opd/base/histogram-series.ts'
import {
  busiest,
  byLabel,
  counter,
  gauge,
  histogram,
  type MetricRow,
  one,
  others as otherSuppliers,
  registerRows,
  type Sample,
} from '../opd/base/metrics.ts'
import {
  type DurationHistogram,
  durationBuckets,
  mirrorOutcomes,
  mirrorResults,
  mirrorSides,
  outcomes,
  refusals,
  type SupplierMetrics,
  type VariantMetrics,
} from './metrics.ts'
import { type Gauges, nodeLoad, type ProcessLoad, type SupplierLoad } from './node-load.ts'
import type { Supplier } from './supplier.ts'
import type { TlsIdentity } from './wire/tls-identity.ts'

/** What a scrape reads. */
interface ProxyState {
  suppliers: ReadonlyMap<string, Supplier>
  gauges: () => Gauges
  /** The other processes of this node. */
  others: () => Iterable<ProcessLoad>
  decoder: { bytes: number }
  /** Connections closed or refused by reason. */
  closed: ReadonlyMap<string, number>
  /** Lines of the access log, by what became of them. */
  logged: ReadonlyMap<string, number>
  largestLag: LargestLag
}

/** A supplier as a scrape sees it, with the sums of all processes. */
interface Scraped extends SupplierLoad {
  id: string
  active: boolean
  metrics: SupplierMetrics
  /** Of the certificates that its configuration names. */
  expiries: TlsIdentity['expiries']
  /** Too few of its endpoints are available, so all are used. */
  panicking: boolean
  /** It has all gauges. Others have those that differ from a supplier at rest: thousands would be most of a scrape. */
  isTop: boolean
}

const isBusy = ({ inFlight, isTop, metrics }: Scraped) =>
  inFlight > 0 || (isTop && metrics.total > 0)
/** A cause of `none` is exported for the busiest suppliers alone. */
const hasLimit = ({ cause, isTop, metrics }: Scraped) =>
  metrics.total > 0 && (isTop || cause === 'load' || cause === 'lateness' || cause === 'probing')
const isMirrored = ({ metrics }: Scraped) => metrics.mirror.requests.some((count) => count > 0)
const isLimited = ({ queued, isTop }: Scraped) => queued > 0 || isTop

function* outcomeSamples(ssp: string, { requests }: SupplierMetrics): Generator<Sample> {
  for (const [index, outcome] of outcomes.entries()) {
    const value = requests[index]!
    if (value > 0) yield { value, labels: { ssp, outcome } }
  }
}

const refusedSamples = ({ id, metrics }: Scraped): Sample[] =>
  refusals
    .map((reason, index) => ({ value: metrics.refusals[index]!, labels: { ssp: id, reason } }))
    .filter(({ value }) => value > 0)

/** Samples of counters by name; what has not happened is absent. */
const mirrorSamples = (
  label: string,
  names: readonly string[],
  countsOf: (mirror: SupplierMetrics['mirror']) => Float64Array,
) =>
  function* ({ id, metrics }: Scraped): Generator<Sample> {
    const counts = countsOf(metrics.mirror)
    for (const [index, name] of names.entries())
      if (counts[index]! > 0) yield { value: counts[index]!, labels: { ssp: id, [label]: name } }
  }

interface CanaryLabels extends Record<string, string> {
  ssp: string
  variant: string
}

const canaryOthers: CanaryLabels = { ssp: otherSuppliers, variant: otherSuppliers }

/** A row for each metric of the proxy. */
class ProxyRows {
  private readonly state: ProxyState
  /** `requestSamples` fills this list. Its row comes before all other rows that read it. */
  private scraped: Scraped[] = []
  private readonly canarySeries = new HistogramSeries(
    'bidweir_canary_upstream_duration_seconds',
    durationBuckets,
  )

  constructor(state: ProxyState) {
    this.state = state
  }

  /** @param lag the largest lag of the event loop since the last call, seconds */
  rows(lag: () => number): MetricRow[] {
    return [
      ...this.durationRows(),
      ...this.requestRows(),
      ...this.mirrorRows(),
      ...this.canaryRows(),
      ...this.supplierRows(),
      ...this.endpointRows(),
      ...this.nodeRows(lag),
    ]
  }

  /** Durations of bid requests by supplier. */
  private durationRows(): MetricRow[] {
    return [
      this.durations(
        'bidweir_request_duration_seconds',
        'Time from the head of a bid request to its response',
        ({ duration }) => duration,
      ),
      this.durations(
        'bidweir_upstream_duration_seconds',
        'Time from sending to an endpoint to its complete response',
        ({ upstream }) => upstream,
      ),
      this.durations(
        'bidweir_overhead_seconds',
        'Time that the proxy itself added to a bid request',
        ({ overhead }) => overhead,
      ),
    ]
  }

  /** Bid requests and their outcomes. */
  private requestRows(): MetricRow[] {
    return [
      counter(
        'bidweir_requests_total',
        'Bid requests by outcome; an outcome is absent until its first request',
        () => this.requestSamples(),
      ),
      counter(
        'bidweir_refused_requests_total',
        'Bid requests with the outcome refused, by reason: method (405), caller (403: address or header), certificate (403), body (413 or malformed); absent until the first one',
        this.samplesOf(refusedSamples, ({ metrics }) => metrics.total > 0),
      ),
      counter(
        'bidweir_replays_total',
        'Requests sent once more on a new connection',
        this.perSupplier(
          ({ metrics }) => metrics.replays,
          ({ metrics }) => metrics.replays > 0,
        ),
      ),
      gauge(
        'bidweir_requests_in_flight',
        'Bid requests in flight',
        this.perSupplier(({ inFlight }) => inFlight, isBusy),
      ),
    ]
  }

  /** Copies of requests, and how their responses compare. */
  private mirrorRows(): MetricRow[] {
    return [
      counter(
        'bidweir_mirror_requests_total',
        'Copies of requests to the mirror of a supplier, by outcome: answer, no_bid (204), timeout, error (no whole response of at most 128 KiB), skipped (64 were in flight)',
        this.samplesOf(
          mirrorSamples('outcome', mirrorOutcomes, ({ requests }) => requests),
          isMirrored,
        ),
      ),
      counter(
        'bidweir_mirror_compared_total',
        'Responses of the mirror compared with those of the supplier, by the first difference: status, bids (their number), prices, same; unknown: one of them is not complete or cannot be read',
        this.samplesOf(
          mirrorSamples('result', mirrorResults, ({ results }) => results),
          isMirrored,
        ),
      ),
      counter(
        'bidweir_mirror_bids_total',
        'Bids in compared responses, of the supplier and of the mirror',
        this.samplesOf(
          mirrorSamples('of', mirrorSides, ({ bids }) => bids),
          isMirrored,
        ),
      ),
      counter(
        'bidweir_mirror_price_total',
        'Sum of the prices (CPM) of bids in compared responses, of the supplier and of the mirror',
        this.samplesOf(
          mirrorSamples('of', mirrorSides, ({ prices }) => prices),
          isMirrored,
        ),
      ),
    ]
  }

  /** The endpoints of a canary beside the others. */
  private canaryRows(): MetricRow[] {
    return [
      counter(
        'bidweir_canary_requests_total',
        'Bid requests of suppliers with a canary, by outcome and by the endpoints that they were sent to',
        this.perVariant(({ requests }) =>
          outcomes.flatMap((outcome, index) =>
            requests[index]! > 0 ? [{ value: requests[index]!, labels: { outcome } }] : [],
          ),
        ),
      ),
      counter(
        'bidweir_canary_bids_total',
        'Bids of suppliers with a canary, in responses of at most 64 KiB without a content encoding',
        this.perVariant(({ bids }) => one(bids, {})),
      ),
      counter(
        'bidweir_canary_bid_price_sum_total',
        'Prices of those bids as the supplier sent them, CPM in the currency of the responses',
        this.perVariant(({ prices }) => one(prices, {})),
      ),
      histogram(
        'bidweir_canary_upstream_duration_seconds',
        'Time from sending to an endpoint to its complete response, of suppliers with a canary',
        () => this.canarySeries.samples(this.canaryHistograms(), canaryOthers),
      ),
    ]
  }

  /** Limits and allotments of suppliers. */
  private supplierRows(): MetricRow[] {
    return [
      gauge(
        'bidweir_supplier_limit',
        'Limit of requests that are at the supplier at once',
        this.perSupplier(({ limit }) => limit, isLimited),
      ),
      gauge(
        'bidweir_supplier_limit_cause',
        'Always 1; why the limit has its value: none (no load is seen), lateness (time-outs or latencies that do not depend on the load), probing (a trial with half of the requests in flight), load (with fewer in flight more are answered in time), fixed (maxInFlight)',
        this.samplesOf(({ id, cause }) => one(1, { ssp: id, cause }), hasLimit),
      ),
      gauge(
        'bidweir_supplier_unloaded_seconds',
        'Mean latency of the supplier without a queue, as the limiter has measured it: higher latencies count as load',
        this.perSupplier(
          ({ unloaded }) => unloaded.seconds,
          (supplier) => hasLimit(supplier) && supplier.unloaded.seconds > 0,
        ),
      ),
      gauge(
        'bidweir_supplier_unloaded_late_ratio',
        'Share of time-outs of the supplier that do not depend on the load, as the limiter has measured it',
        this.perSupplier(({ unloaded }) => unloaded.late, hasLimit),
      ),
      gauge(
        'bidweir_supplier_queued',
        'Requests that wait because the supplier is at its limit',
        this.perSupplier(({ queued }) => queued, isLimited),
      ),
      gauge(
        'bidweir_qps_allotment',
        'Queries per second allotted to this node',
        this.perSupplier(
          ({ clientQps }) => clientQps!,
          ({ clientQps }) => clientQps !== null,
        ),
      ),
      gauge(
        'bidweir_datacenter_active',
        '1 if this location takes bids of the supplier',
        this.perSupplier(
          ({ active }) => (active ? 1 : 0),
          ({ active, isTop }) => !active || isTop,
        ),
      ),
      gauge(
        'bidweir_supplier_certificate_expiry_timestamp_seconds',
        'Time at which a certificate in `tls` of the supplier expires: its client certificate, or the first of its authorities',
        this.samplesOf(
          ({ id, expiries }) =>
            expiries.map(({ certificate, expires }) => ({
              value: expires / 1000,
              labels: { ssp: id, certificate },
            })),
          ({ expiries }) => expiries.length > 0,
        ),
      ),
    ]
  }

  /** Endpoints of suppliers and their health. */
  private endpointRows(): MetricRow[] {
    return [
      counter(
        'bidweir_health_checks_total',
        'Health checks of endpoints, by result',
        this.samplesOf(
          ({ id, metrics: { checks, failedChecks } }) => [
            { value: checks - failedChecks, labels: { ssp: id, result: 'ok' } },
            { value: failedChecks, labels: { ssp: id, result: 'failed' } },
          ],
          ({ metrics }) => metrics.checks > 0,
        ),
      ),
      gauge(
        'bidweir_endpoints_panic',
        '1 while too few endpoints of a supplier are available, so that health checks are ignored',
        this.perSupplier(
          () => 1,
          ({ panicking }) => panicking,
        ),
      ),
      gauge(
        'bidweir_endpoint_up',
        '0 while an endpoint fails, is ejected, fails its health checks, or is out by an operator',
        this.perEndpoint(
          ({ state }) => (state === 'up' ? 1 : 0),
          ({ endpoints, isTop }) => isTop || endpoints.some(({ state }) => state !== 'up'),
        ),
      ),
      gauge(
        'bidweir_endpoint_in_flight',
        'Requests in flight to an endpoint',
        this.perEndpoint(({ inFlight }) => inFlight, isBusy),
      ),
      gauge(
        'bidweir_endpoint_connections',
        'Open connections to an endpoint',
        this.perEndpoint(
          ({ open }) => open,
          (supplier) => supplier.isTop && isBusy(supplier),
        ),
      ),
    ]
  }

  /** Connections and memory of the node. */
  private nodeRows(lag: () => number): MetricRow[] {
    return [
      gauge('bidweir_connections', 'Connections of callers', () =>
        one(this.nodeGauge('connections')),
      ),
      gauge('bidweir_http2_connections', 'Connections of callers over HTTP/2', () =>
        one(this.nodeGauge('http2Connections')),
      ),
      gauge('bidweir_held_bytes', 'Bytes of bodies in memory', () =>
        one(this.nodeGauge('heldBytes')),
      ),
      gauge('bidweir_held_bytes_limit', 'Limit for the bytes of bodies in memory', () =>
        one(this.nodeGauge('maxHeldBytes')),
      ),
      gauge(
        'bidweir_index_bytes',
        'Bytes of the index of long JSON documents, which is kept; they count towards bidweir_held_bytes_limit',
        () => one(this.nodeGauge('indexBytes')),
      ),
      gauge(
        'bidweir_long_responses',
        'Responses over 64 KiB, decoded, that are decoded or rewritten, or that wait for it',
        () =>
          byLabel('state', [
            ['running', this.nodeGauge('longResponses')],
            ['waiting', this.nodeGauge('longWaiting')],
          ]),
      ),
      gauge(
        'bidweir_request_decodes',
        'gzip requests whose whole body is being decoded, or that wait for it',
        () =>
          byLabel('state', [
            ['running', this.nodeGauge('decoding')],
            ['waiting', this.nodeGauge('waiting')],
          ]),
      ),
      counter('bidweir_request_decoded_bytes_total', 'Bytes decoded from gzip requests', () =>
        one(this.state.decoder.bytes),
      ),
      counter('bidweir_connections_closed_total', 'Connections closed or refused, by reason', () =>
        byLabel('reason', this.state.closed),
      ),
      counter(
        'bidweir_access_log_lines_total',
        'Lines of the access log: written, dropped (the buffer was full), limited (failed and slow requests beyond 1,000 a second)',
        () => byLabel('result', this.state.logged),
      ),
      gauge(
        'bidweir_event_loop_lag_seconds',
        'The largest lag of the event loop since the last scrape',
        () => one(lag()),
      ),
    ]
  }

  private *requestSamples() {
    const { suppliers, others } = this.state
    const top = yield* busiest(suppliers.values(), ({ metrics }) => metrics.total)
    this.scraped = []
    for (const supplier of suppliers.values()) {
      const { id, active, metrics, tls, endpoints } = supplier
      const { expiries } = tls
      const { panicking } = endpoints
      const isTop = top.has(supplier)
      const load = nodeLoad(supplier, others())
      this.scraped.push({ id, active, metrics, expiries, panicking, isTop, ...load })
      yield* outcomeSamples(id, metrics)
      yield null
    }
  }

  /** The samples of all suppliers that are shown. */
  private samplesOf(
    samples: (supplier: Scraped) => Iterable<Sample>,
    shown: (supplier: Scraped) => boolean,
  ) {
    return () => this.shownSamples(samples, shown)
  }

  private *shownSamples(
    samples: (supplier: Scraped) => Iterable<Sample>,
    shown: (supplier: Scraped) => boolean,
  ) {
    for (const supplier of this.scraped) {
      if (shown(supplier)) yield* samples(supplier)
      yield null
    }
  }

  private perSupplier(value: (supplier: Scraped) => number, shown: (supplier: Scraped) => boolean) {
    return this.samplesOf((supplier) => one(value(supplier), { ssp: supplier.id }), shown)
  }

  private perEndpoint(
    value: (endpoint: Scraped['endpoints'][number]) => number,
    shown: (supplier: Scraped) => boolean,
  ) {
    return this.samplesOf(
      ({ id, endpoints }) =>
        endpoints.map((endpoint) => ({
          value: value(endpoint),
          labels: { ssp: id, endpoint: endpoint.url.replace(/[?#].*/s, '') },
        })),
      shown,
    )
  }

  private *variants(): Generator<[CanaryLabels, VariantMetrics]> {
    for (const { id, metrics } of this.state.suppliers.values()) {
      if (metrics.variants === null) continue
      yield [{ ssp: id, variant: 'main' }, metrics.variants.main]
      yield [{ ssp: id, variant: 'canary' }, metrics.variants.canary]
    }
  }

  private *canaryHistograms(): Generator<[CanaryLabels, DurationHistogram]> {
    for (const [labels, { upstream }] of this.variants()) yield [labels, upstream]
  }

  private perVariant(samples: (variant: VariantMetrics) => Iterable<Sample>) {
    return () => this.variantSamples(samples)
  }

  private *variantSamples(samples: (variant: VariantMetrics) => Iterable<Sample>) {
    for (const [labels, metrics] of this.variants()) {
      for (const sample of samples(metrics))
        yield { ...sample, labels: { ...labels, ...sample.labels } }
      yield null
    }
  }

  private nodeGauge(name: keyof Gauges): number {
    let sum = this.state.gauges()[name]
    for (const load of this.state.others()) sum += load[name]
    return sum
  }

  private durations(
    name: string,
    help: string,
    histogramOf: (metrics: SupplierMetrics) => DurationHistogram,
  ): MetricRow {
    const series = new HistogramSeries(name, durationBuckets)
    const { suppliers } = this.state
    function* histograms(): Generator<[{ ssp: string }, DurationHistogram]> {
      for (const { id, metrics } of suppliers.values()) yield [{ ssp: id }, histogramOf(metrics)]
    }
    return histogram(name, help, () => series.samples(histograms(), { ssp: otherSuppliers }))
  }
}

/** The largest lag of the event loop between two scrapes. */
export class LargestLag {
  private seconds = 0

  /** @param seconds by which a tick of the event loop was late; of another process: its largest lag */
  observe(seconds: number): void {
    this.seconds = Math.max(this.seconds, seconds)
  }

  /** Seconds, the largest since the last call. */
  takeLargest(): number {
    const { seconds } = this
    this.seconds = 0
    return seconds
  }
}

/** Registers all metrics. */
export function bindMetrics(registry: Registry, state: ProxyState): void {
  registerRows(
    registry,
    new ProxyRows(state).rows(() => state.largestLag.takeLargest()),
  )
}
