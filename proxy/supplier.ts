/** One supplier at run time: its configuration, endpoints, limits, and state in the directory. */
import type { Log } from '../opd/base/log.ts'
import { type Allotment, type Bucket, bucketOf, LeasedBucket } from './admission/allotment.ts'
import { type CallerCheck, callerCheck } from './admission/callers.ts'
import { Gate } from './admission/gate.ts'
import type { Route } from './config.ts'
import { Mirror } from './exchange/mirror.ts'
import type { SupplierMetrics } from './metrics.ts'
import { endpointOf } from './upstream/config.ts'
import { EndpointLog } from './upstream/endpoint-log.ts'
import { Endpoint, type EndpointOverride, Endpoints } from './upstream/endpoints.ts'
import { HealthChecks } from './upstream/health-checks.ts'
import type { Upstream } from './upstream/pool.ts'
import { type HeaderRules, headerRules } from './wire/header-rules.ts'
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

const noSeats: ReadonlySet<string> = new Set()
const unlimited: Allotment = { active: true, clientQps: null }

/** The identity of a route; `current` if it is equal, so that its sessions are resumed. */
function tlsOf({ tls }: Route, current: TlsIdentity): TlsIdentity {
  if (tls === undefined) return systemTls
  return current.equals(tls) ? current : new TlsIdentity(tls)
}

export class Supplier {
  readonly id: string
  readonly metrics: SupplierMetrics
  route: Route
  endpoints: Endpoints
  readonly checks: HealthChecks
  private overrides: DirectoryState['overrides']
  /** For endpoints over TLS. */
  tls: TlsIdentity
  /** What is set and removed in the head of a request; null: nothing. */
  headers: HeaderRules | null
  callers: CallerCheck | null
  /** null: requests are not copied. */
  mirror: Mirror | null = null
  /** Requests from admission to the response, queued ones included. */
  inFlight = 0
  /** Kept through a change of configuration: its measurements of the supplier remain valid. */
  readonly gate = new Gate()
  inactiveSeats = noSeats
  private allSeatsInactive = false
  private allotment = unlimited
  private share = 1
  private bucket: Bucket | null = null
  private maxInFlight = Number.POSITIVE_INFINITY
  private readonly log: Log

  constructor(route: Route, metrics: SupplierMetrics, upstream: NodeUpstream, log: Log) {
    this.log = log
    this.id = route.id
    this.route = route
    this.metrics = metrics
    this.checks = new HealthChecks(metrics, (endpoint, fault) => {
      this.endpoints.setHealth(endpoint, fault)
      upstream.onHealth()
    })
    this.tls = tlsOf(route, systemTls)
    this.endpoints = this.endpointsOf(route, upstream, [])
    this.headers = headerRules(route.headers)
    this.callers = callerCheck(route.callers)
    this.mirror = this.mirrorOf(route, upstream, null)
    this.configureChecks(upstream)
  }

  /** Applies a new configuration. Endpoints in both configurations keep their connections and failure counts. */
  configure(route: Route, upstream: NodeUpstream): void {
    const { tls } = this
    this.tls = tlsOf(route, tls)
    if (this.tls !== tls)
      for (const { pool } of this.endpoints.all) pool.setTls(this.tls, this.tls.trustsLike(tls))
    this.endpoints = this.endpointsOf(route, upstream, this.endpoints.all)
    this.route = route
    this.headers = headerRules(route.headers)
    this.callers = callerCheck(route.callers)
    this.mirror = this.mirrorOf(route, upstream, this.tls === tls ? this.mirror : null)
    this.configureChecks(upstream)
  }

  /** `current` if it is of the same endpoint: its connections and its limit remain. */
  private mirrorOf(
    { mirror: config }: Route,
    upstream: NodeUpstream,
    current: Mirror | null,
  ): Mirror | null {
    const isSame = config !== undefined && current?.config.endpoint === config.endpoint
    if (!isSame) this.mirror?.endpoint.pool.close()
    if (config === undefined) return null
    if (isSame) return current.configure(config)
    const log = new EndpointLog(this.log, this.id, config.endpoint)
    const secured = { ...upstream, tls: this.tls }
    return new Mirror(
      config,
      new Endpoint(endpointOf(config.endpoint), secured, log),
      this.metrics.mirror,
    )
  }

  private configureChecks({ checksHealth }: NodeUpstream): void {
    if (checksHealth)
      this.checks.configure(this.endpoints.all, this.route.healthCheck, this.headers)
    this.applyOverrides()
  }

  private applyOverrides(): void {
    const now = performance.now()
    for (const endpoint of this.endpoints.all) {
      const wanted = this.overrides?.get(endpoint.name)
      const until = now + (wanted?.left ?? 0)
      this.endpoints.setOverride(
        endpoint,
        wanted === undefined || wanted.left <= 0 ? null : { state: wanted.state, until },
      )
    }
  }

  /** Results of the health checks of another process: faults by name of the endpoint. */
  setUnhealthy(faults: ReadonlyMap<string, string> | undefined): void {
    for (const endpoint of this.endpoints.all)
      this.endpoints.setHealth(endpoint, faults?.get(endpoint.name) ?? null)
  }

  private endpointsOf(
    { endpoints, outliers, timeout }: Route,
    upstream: NodeUpstream,
    current: readonly Endpoint[],
  ): Endpoints {
    const known = new Map(current.map((endpoint) => [endpoint.url.href, endpoint]))
    const secured = { ...upstream, tls: this.tls }
    const next = endpoints.map((each) => {
      const config = endpointOf(each)
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

  /** Null: the request is admitted. `overloaded`: the node is. A request that is refused for overload takes no token. */
  refusal(now: number, overloaded: boolean): Refusal | null {
    if (!this.allotment.active || this.allSeatsInactive) return 'inactive'
    if (overloaded || this.inFlight >= this.maxInFlight) return 'overload'
    if (this.gate.refuses(now + this.route.timeout, now)) return 'overload'
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
    this.checks.close()
    for (const endpoint of this.endpoints.all) endpoint.pool.close()
    this.mirror?.endpoint.pool.close()
  }

  destroy(): void {
    this.checks.close()
    for (const endpoint of this.endpoints.all) endpoint.pool.destroy()
    this.mirror?.endpoint.pool.destroy()
  }
}
