/**
 * The endpoints of one supplier, and what is known of each. A request goes to the less loaded of two (endpoint-table.ts). An
 * endpoint that fails repeatedly is ejected for a growing time, then probed with one request. The last endpoint is never
 * ejected.
 */
import type { Body } from '../../opd/json/scanner.ts'
import type { EndpointConfig, OutlierConfig } from './config.ts'
import type { EndpointLog, EndpointState, Failure } from './endpoint-log.ts'
import { type Choosable, EndpointTable } from './endpoint-table.ts'
import { type ConnectionPool, createPool, type Upstream } from './pool.ts'

const never = Number.POSITIVE_INFINITY

export class Endpoint implements Choosable {
  readonly url: URL
  /** The endpoint's own path; the caller's query is appended. */
  readonly path: string
  readonly host: string
  readonly pool: ConnectionPool
  readonly log: EndpointLog
  weight = 1
  zone: string | undefined
  priority = 0
  inFlight = 0
  /** Consecutive, up to the last request. */
  failures = 0
  ejections = 0
  /** `performance.now()` until which no request is sent; 0: not ejected. */
  ejectedUntil = 0
  probing = false
  /** Requests, failures and milliseconds since `watchedSince`, if shares of them eject. */
  readonly watched = { since: 0, requests: 0, failures: 0, ms: 0 }

  constructor(config: EndpointConfig, upstream: Upstream, log: EndpointLog) {
    this.url = new URL(config.url)
    this.path = this.url.pathname + this.url.search
    this.host = this.url.host
    this.pool = createPool(this.url.origin, upstream)
    this.log = log
    this.configure(config)
  }

  configure({ weight, zone, priority }: EndpointConfig): void {
    this.weight = weight
    this.zone = zone
    this.priority = priority
  }

  get ejected(): boolean {
    return this.ejectedUntil > 0
  }

  get available(): boolean {
    return !this.ejected
  }

  get usable(): boolean {
    return !this.ejected
  }

  get state(): EndpointState {
    if (this.ejected) return 'ejected'
    return this.failures > 0 ? 'failing' : 'up'
  }

  target(query: string): string {
    if (query.length <= 1) return this.path
    return this.url.search === '' ? this.path + query : `${this.path}&${query.slice(1)}`
  }
}

interface EndpointsOptions {
  outliers: OutlierConfig
  /** Milliseconds that a request may take, to which `latencyShare` refers. */
  timeout: number
  /** Of the node. */
  zone: string | null
  now?: () => number
  random?: () => number
}

/** Milliseconds over which `errorShare` and `latencyShare` are measured. */
const watchTime = 10_000

export class Endpoints {
  readonly all: readonly Endpoint[]
  private readonly outliers: OutlierConfig
  private readonly timeout: number
  private readonly zone: string | null
  private readonly now: () => number
  private readonly random: () => number
  private readonly watches: boolean
  private table: EndpointTable<Endpoint>
  /** The next time at which the table is prepared without a change of a state: an ejection ends. */
  private due = never

  constructor(all: readonly Endpoint[], options: EndpointsOptions) {
    const { outliers, timeout, zone, now = () => performance.now(), random = Math.random } = options
    this.all = all
    this.outliers = outliers
    this.timeout = timeout
    this.zone = zone
    this.now = now
    this.random = random
    this.watches = outliers.errorShare !== 'off' || outliers.latencyShare !== 'off'
    this.table = this.prepared()
  }

  /** Too few endpoints are available, so all are used. */
  get panicking(): boolean {
    return this.table.panicking
  }

  /** The endpoint of the next request. A replay avoids the first endpoint, `not`, if there is another. */
  choose(not?: Endpoint): Endpoint {
    if (this.all.length === 1) return this.all[0]!
    if (this.due < never) {
      const probed = this.probeDue(not)
      if (probed !== null) return probed
    }
    return not === undefined ? this.table.choose(this.random) : (this.table.other(not) ?? not)
  }

  /** An ejection has ended: the next request is sent there, alone. */
  private probeDue(not: Endpoint | undefined): Endpoint | null {
    const now = this.now()
    if (now < this.due) return null
    for (const endpoint of this.all) {
      if (!endpoint.ejected || endpoint.probing || endpoint.ejectedUntil > now || endpoint === not)
        continue
      endpoint.probing = true
      this.prepare()
      return endpoint
    }
    return null
  }

  private prepare(): void {
    this.table = this.prepared()
  }

  private prepared(): EndpointTable<Endpoint> {
    this.due = never
    for (const { ejected, probing, ejectedUntil } of this.all)
      if (ejected && !probing) this.due = Math.min(this.due, ejectedUntil)
    return new EndpointTable(this.all, this.zone)
  }

  /** @param ms how long the request took */
  succeeded(endpoint: Endpoint, ms = 0): void {
    if (this.watches && this.watch(endpoint, ms, false)) return this.slow(endpoint)
    if (endpoint.failures === 0 && endpoint.ejectedUntil === 0) return
    const { ejected } = endpoint
    endpoint.probing = false
    endpoint.failures = 0
    endpoint.ejectedUntil = 0
    endpoint.ejections = 0
    if (ejected) this.prepare()
    endpoint.log.recovered(this.now())
  }

  private slow(endpoint: Endpoint): void {
    this.eject(endpoint)
    endpoint.log.failed(endpoint.state, 'slow', this.now(), '')
  }

  /** `request`: the body of the request that failed. */
  failed(endpoint: Endpoint, failure: Failure, request: Body = '', ms = 0): void {
    this.count(endpoint, ms)
    endpoint.log.failed(endpoint.state, failure, this.now(), request)
  }

  private count(endpoint: Endpoint, ms: number): void {
    const { probing } = endpoint
    endpoint.probing = false
    endpoint.failures++
    const isOutlier = this.watches && this.watch(endpoint, ms, true)
    if (probing) this.eject(endpoint)
    else if (isOutlier || endpoint.failures >= this.outliers.consecutive)
      if (this.mayEject(endpoint)) this.eject(endpoint)
  }

  /** Counts a request; returns whether the endpoint is an outlier by the share of its failures, or by its latency. */
  private watch(endpoint: Endpoint, ms: number, isFailure: boolean): boolean {
    const { watched } = endpoint
    const { errorShare, latencyShare, minRequests } = this.outliers
    const now = this.now()
    if (now - watched.since > watchTime)
      Object.assign(watched, { since: now, requests: 0, failures: 0, ms: 0 })
    watched.requests++
    watched.ms += ms
    if (isFailure) watched.failures++
    const { requests, failures } = watched
    if (endpoint.ejected || requests < minRequests) return false
    const fails = errorShare !== 'off' && isFailure && failures > errorShare * requests
    const isSlow = latencyShare !== 'off' && watched.ms > latencyShare * this.timeout * requests
    return (fails || isSlow) && (isFailure || this.mayEject(endpoint))
  }

  /** At most `maxEjectedShare` of the endpoints, rounded up, and never the last that is available. */
  private mayEject(endpoint: Endpoint): boolean {
    if (endpoint.ejected) return false
    const ejected = this.all.filter((each) => each.ejected).length
    return (
      ejected < Math.ceil(this.outliers.maxEjectedShare * this.all.length) &&
      this.all.some((other) => other !== endpoint && other.available)
    )
  }

  private eject(endpoint: Endpoint): void {
    const { baseEjection, maxEjection } = this.outliers
    const time = Math.min(maxEjection, baseEjection * 2 ** endpoint.ejections)
    endpoint.ejectedUntil = this.now() + time
    endpoint.ejections++
    endpoint.watched.since = 0
    this.prepare()
  }

  /** Neither a success nor a failure of the endpoint: the caller has left, for example. */
  abandoned(endpoint: Endpoint): void {
    if (!endpoint.probing) return
    endpoint.probing = false
    this.prepare()
  }
}
