/** One supplier at run time: its configuration, endpoints, limits, and state in the directory. */
import { getOrAdd } from '../opd/base/get-or-add.ts'
import { unitHash } from '../opd/base/hash.ts'
import type { Log } from '../opd/base/log.ts'
import { requestIdOf } from '../opd/protobuf/request-id.ts'
import type { SupplierResponses } from '../opd/types.ts'
import { type Allotment, type Bucket, bucketOf, LeasedBucket } from './admission/allotment.ts'
import { type CallerCheck, callerCheck } from './admission/callers.ts'
import { Gate } from './admission/gate.ts'
import type { Route } from './config.ts'
import { Mirror } from './exchange/mirror.ts'
import { type SupplierMetrics, VariantMetrics } from './metrics.ts'
import type { Body } from './types.ts'
import { type DiscoveryConfig, endpointOf } from './upstream/config.ts'
import { Discovery } from './upstream/discovery.ts'
import { EndpointLog } from './upstream/endpoint-log.ts'
import { Endpoint, type EndpointOverride, Endpoints } from './upstream/endpoints.ts'
import { HealthChecks } from './upstream/health-checks.ts'
import type { Upstream } from './upstream/pool.ts'
import { type ConfiguredHeaders, configuredHeaders } from './wire/configured-headers.ts'
import { systemTls, TlsIdentity } from './wire/tls-identity.ts'

/** The state of one supplier in the directory, at this node's location. */
export interface DirectoryState {
  inactiveSeats: ReadonlySet<string>
  /** No listed seat is active, so the supplier gets no request. */
  allSeatsInactive?: boolean
  allotment: Allotment | undefined
  /** What operators have decided of its endpoints, by name. `left`: milliseconds until it ends. */
  overrides?: ReadonlyMap<string, { state: EndpointOverride['state']; left: number }>
}

/** How endpoints are reached from this node. */
export interface NodeUpstream extends Upstream {
  /** The zone of the node; null: it has none. */
  zone: string | null
  /** This process checks the health of endpoints. Of several processes one does. */
  checksHealth: boolean
  /** An endpoint has failed its health checks, or passes them again. */
  onHealth: () => void
}

/** Why the supplier gets no request. */
type Refusal = 'inactive' | 'qps' | 'overload'

/** V8 keeps a whole number of 31 bits in the object; infinity would be an object of its own. */
const noLimit = 2 ** 31 - 1
const noSeats: ReadonlySet<string> = new Set()
const unlimited: Allotment = { active: true, clientQps: null }

/** No secret: which auctions go to a canary gives nothing away. */
const canarySeed = 0x63616e61

/** What each request reads of its supplier's route. */
export type RequestSettings = Pick<Route, 'timeout' | 'tmaxMargin' | 'openrtb'>

/** Settings in use. Those of most suppliers are equal, and then one object, which the caches of the processor have for all. */
const knownSettings = new Map<string, RequestSettings>()
const maxSettings = 1000

function settingsOf({ timeout, tmaxMargin, openrtb }: Route): RequestSettings {
  if (knownSettings.size > maxSettings) knownSettings.clear()
  const key = `${timeout} ${tmaxMargin} ${openrtb}`
  return getOrAdd(knownSettings, key, () => ({ timeout, tmaxMargin, openrtb }))
}

/** The identity of a route; `current` if it is equal, so that its sessions are resumed. */
function tlsOf({ tls }: Route, current: TlsIdentity): TlsIdentity {
  if (tls === undefined) return systemTls
  return current.equals(tls) ? current : new TlsIdentity(tls)
}

/**
 * One supplier at run time: endpoints, limits, state of the directory and counters. A reload keeps it and replaces its
 * route.
 */
export class Supplier {
  // What each request reads comes first, and lies together in memory.
  settings: RequestSettings
  endpoints: Endpoints
  readonly metrics: SupplierMetrics
  readonly responses: SupplierResponses
  /** Kept through a change of configuration: its measurements of the supplier remain valid. */
  readonly gate = new Gate()
  /** Requests from admission to the response, queued ones included. */
  inFlight = 0
  private maxInFlight = noLimit
  /** No further request is for it. */
  removed = false
  private allSeatsInactive = false
  private allotment = unlimited
  private bucket: Bucket | null = null
  callers: CallerCheck | null
  /** null: there is none. */
  canary: { endpoints: Endpoints; share: number } | null
  /** What is set and removed in the head of a request; null: nothing. */
  headers: ConfiguredHeaders | null
  /** null: requests are not copied. */
  mirror: Mirror | null = null
  inactiveSeats = noSeats
  route: Route
  readonly id: string
  readonly checks: HealthChecks
  private overrides: DirectoryState['overrides']
  /** For endpoints over TLS. */
  tls: TlsIdentity
  private share = 1
  private readonly log: Log
  private readonly upstream: NodeUpstream
  private discovery: Discovery | null = null

  constructor(
    route: Route,
    metrics: SupplierMetrics,
    responses: SupplierResponses,
    upstream: NodeUpstream,
    log: Log,
  ) {
    this.log = log
    this.id = route.id
    this.route = route
    this.settings = settingsOf(route)
    this.metrics = metrics
    this.responses = responses
    this.checks = new HealthChecks(metrics, (endpoint, fault) => {
      this.groupOf(endpoint).setHealth(endpoint, fault)
      upstream.onHealth()
    })
    this.upstream = upstream
    this.tls = tlsOf(route, systemTls)
    this.discovery = this.discoveryOf(route)
    this.endpoints = this.endpointsOf(route, route.endpoints, [])
    this.canary = this.canaryOf(route, [])
    this.headers = configuredHeaders(route.headers)
    this.callers = callerCheck(route.callers)
    this.mirror = this.mirrorOf(route, null)
    this.configureChecks()
  }

  /** Applies a new configuration. Endpoints in both configurations keep their connections and failure counts. */
  configure(route: Route): void {
    const { tls } = this
    this.tls = tlsOf(route, tls)
    if (this.tls !== tls)
      for (const { pool } of this.everyEndpoint()) pool.setTls(this.tls, this.tls.trustsLike(tls))
    const { discovery } = this
    this.discovery = this.discoveryOf(route)
    const canary = this.canary?.endpoints.all ?? []
    // Another resolver or protocol is that of other pools.
    const isSame = this.discovery === discovery && this.route.protocol === route.protocol
    if (!isSame) this.closed(this.discovery === discovery ? null : discovery)
    this.endpoints = this.endpointsOf(route, route.endpoints, isSame ? this.endpoints.all : [])
    this.canary = this.canaryOf(route, isSame ? canary : [])
    this.route = route
    this.settings = settingsOf(route)
    this.headers = configuredHeaders(route.headers)
    this.callers = callerCheck(route.callers)
    this.mirror = this.mirrorOf(route, this.tls === tls ? this.mirror : null)
    this.configureChecks()
  }

  /** `current` if it is of the same endpoint: its connections and its limit remain. */
  private mirrorOf({ mirror: config }: Route, current: Mirror | null): Mirror | null {
    const isSame = config !== undefined && current?.config.endpoint === config.endpoint
    if (!isSame) this.mirror?.endpoint.pool.close()
    if (config === undefined) return null
    if (isSame) return current.configure(config)
    const log = new EndpointLog(this.log, this.id, config.endpoint)
    const secured = { ...this.upstream, tls: this.tls }
    return new Mirror(
      config,
      new Endpoint(endpointOf(config.endpoint), secured, log),
      this.metrics.mirror,
    )
  }

  /** Ends the discovery and the endpoints that use it. */
  private closed(discovery: Discovery | null): void {
    for (const { pool } of this.everyEndpoint()) pool.close()
    discovery?.close()
  }

  /** Those of the canary come last. */
  everyEndpoint(): readonly Endpoint[] {
    const { canary, endpoints } = this
    return canary === null ? endpoints.all : [...endpoints.all, ...canary.endpoints.all]
  }

  private canaryOf(route: Route, current: readonly Endpoint[]): Supplier['canary'] {
    const { canary } = route
    if (canary === undefined) {
      for (const { pool } of current) pool.close()
      return null
    }
    this.metrics.variants ??= { main: new VariantMetrics(), canary: new VariantMetrics() }
    return {
      endpoints: this.endpointsOf(route, canary.endpoints, current),
      share: canary.share,
    }
  }

  /**
   * Whether a request goes to the canary, by a hash of its `id`.
   *
   * @param body as it is sent. In gzip, longer than 64 KiB or without an `id`, it goes to the main endpoints.
   */
  isForCanary(body: Body): boolean {
    if (this.canary === null) return false
    const id = requestIdOf(body)
    return id !== undefined && unitHash(id, canarySeed) < this.canary.share
  }

  private configureChecks(): void {
    if (this.upstream.checksHealth)
      this.checks.configure(this.everyEndpoint(), this.route.healthCheck, this.headers)
    this.applyOverrides()
  }

  private groupOf(endpoint: Endpoint): Endpoints {
    const { canary, endpoints } = this
    return canary?.endpoints.all.includes(endpoint) === true ? canary.endpoints : endpoints
  }

  private applyOverrides(): void {
    const now = performance.now()
    for (const endpoint of this.everyEndpoint()) {
      const wanted = this.overrides?.get(endpoint.name)
      const until = now + (wanted?.left ?? 0)
      this.groupOf(endpoint).setOverride(
        endpoint,
        wanted === undefined || wanted.left <= 0 ? null : { state: wanted.state, until },
      )
    }
  }

  /** Results of the health checks of another process: faults by name of the endpoint. */
  setUnhealthy(faults: ReadonlyMap<string, string> | undefined): void {
    for (const endpoint of this.everyEndpoint())
      this.groupOf(endpoint).setHealth(endpoint, faults?.get(endpoint.name) ?? null)
  }

  /** The discovery of a route; the present one if it is the same. */
  private discoveryOf({ discovery, endpoints, canary }: Route): Discovery | null {
    if (discovery === undefined) return null
    const current = this.discovery
    const isSame = JSON.stringify(current?.config) === JSON.stringify(discovery)
    const used = isSame && current !== null ? current : this.newDiscovery(discovery)
    used.watch([...endpoints, ...(canary?.endpoints ?? [])].map(endpointOf))
    return used
  }

  private newDiscovery(config: DiscoveryConfig): Discovery {
    return new Discovery(config, {
      onError: (hostname, error) =>
        this.log.warn(
          { ssp: this.id, hostname, err: error.message },
          'endpoint name not resolved, last endpoints remain in use',
        ),
      onChange: () => {
        this.endpoints = this.endpointsOf(this.route, this.route.endpoints, this.endpoints.all)
        this.canary = this.canaryOf(this.route, this.canary?.endpoints.all ?? [])
        this.configureChecks()
      },
    })
  }

  private endpointsOf(
    { outliers, timeout, protocol }: Route,
    endpoints: Route['endpoints'],
    current: readonly Endpoint[],
  ): Endpoints {
    const { upstream, discovery, tls } = this
    const known = new Map(current.map((endpoint) => [endpoint.url.href, endpoint]))
    const configured = endpoints.map(endpointOf)
    const secured = {
      ...upstream,
      tls,
      protocol,
      resolver: discovery?.resolver ?? upstream.resolver,
    }
    const next = (discovery?.endpoints(configured) ?? configured).map((config) => {
      const { href } = new URL(config.url)
      const existing = known.get(href)
      known.delete(href)
      existing?.configure(config)
      return (
        existing ?? new Endpoint(config, secured, new EndpointLog(this.log, this.id, config.url))
      )
    })
    for (const endpoint of known.values()) endpoint.pool.close()
    return new Endpoints(next, { outliers, timeout, zone: upstream.zone })
  }

  /** `share`: this node's part of the allotment, 1 / live nodes. `leased`: the nodes share one bucket. */
  setDirectoryState(state: DirectoryState, share: number, leased: boolean): void {
    const { inactiveSeats, allSeatsInactive = false, allotment: next = unlimited } = state
    this.overrides = state.overrides
    this.applyOverrides()
    this.inactiveSeats = inactiveSeats
    this.allSeatsInactive = allSeatsInactive
    if (next.clientQps !== this.allotment.clientQps || (!leased && share !== this.share))
      this.bucket = this.bucketOf(next.clientQps, share, leased)
    this.allotment = next
    this.share = share
  }

  private bucketOf(clientQps: number | null, share: number, leased: boolean): Bucket | null {
    if (clientQps === null) return null
    return leased
      ? new LeasedBucket(this.id, clientQps, share)
      : bucketOf(clientQps * share, performance.now())
  }

  /** The bucket that nodes share; null: there is none. */
  get leasedBucket(): LeasedBucket | null {
    return this.bucket instanceof LeasedBucket ? this.bucket : null
  }

  /**
   * Why a request is refused now; null: it is admitted, and has taken a token if the supplier has an allotment. A request that is
   * refused takes none.
   *
   * @param now milliseconds of `performance.now()`, from which the deadline of the request counts
   * @param overloaded the node is
   */
  refusal(now: number, overloaded: boolean): Refusal | null {
    if (!this.allotment.active || this.allSeatsInactive) return 'inactive'
    if (overloaded || this.inFlight >= this.maxInFlight) return 'overload'
    if (this.gate.refuses(now + this.settings.timeout, now)) return 'overload'
    return this.bucket === null || this.bucket.takeToken(now) ? null : 'qps'
  }

  /** Returns the token of an admitted request that is refused for overload before it was sent. */
  giveBack(): void {
    this.bucket?.giveBack()
  }

  /** `highest`: the limit for any supplier, even if its own configuration permits more. */
  limit(highest: number): void {
    const { maxInFlight } = this.route
    this.maxInFlight = highest
    this.gate.configure(maxInFlight === 'auto' ? null : maxInFlight, highest, performance.now())
  }

  /** This node's share of the allotment in queries per second; null: no limit. */
  get clientQps(): number | null {
    if (this.allotment.clientQps === null) return null
    return this.leasedBucket?.clientQps ?? this.allotment.clientQps * this.share
  }

  get active(): boolean {
    return this.allotment.active
  }

  close(): void {
    this.removed = true
    this.checks.close()
    this.closed(this.discovery)
    this.mirror?.endpoint.pool.close()
  }

  destroy(): void {
    this.checks.close()
    this.discovery?.close()
    for (const { pool } of this.everyEndpoint()) pool.destroy()
    this.mirror?.endpoint.pool.destroy()
  }
}
