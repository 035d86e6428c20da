/**
 * The endpoints of one supplier. A request goes to one of two random endpoints: the one with fewer requests in flight
 * (Mitzenmacher 2001). An endpoint that fails repeatedly is ejected for a growing time, then probed with one request.
 * The last endpoint is never ejected.
 */
import type { Body } from '../../opd/json/scanner.ts'
import type { EndpointLog, EndpointState, Failure } from './endpoint-log.ts'
import { type ConnectionPool, createPool, type Upstream } from './pool.ts'

/** Consecutive failures after which an endpoint is ejected. */
const failuresToEject = 5
/** Milliseconds. */
const firstEjection = 1000
const maxEjection = 60_000

export class Endpoint {
  readonly url: URL
  /** The endpoint's own path; the caller's query is appended. */
  readonly path: string
  readonly host: string
  readonly pool: ConnectionPool
  readonly log: EndpointLog
  inFlight = 0
  /** Consecutive, up to the last request. */
  failures = 0
  ejections = 0
  /** `performance.now()` until which no request is sent; 0: not ejected. */
  ejectedUntil = 0
  probing = false

  constructor(url: string, upstream: Upstream, log: EndpointLog) {
    this.url = new URL(url)
    this.path = this.url.pathname + this.url.search
    this.host = this.url.host
    this.pool = createPool(this.url.origin, upstream)
    this.log = log
  }

  get ejected(): boolean {
    return this.ejectedUntil > 0
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

export class Endpoints {
  readonly all: readonly Endpoint[]
  private readonly now: () => number
  private readonly random: () => number

  constructor(all: readonly Endpoint[], now = () => performance.now(), random = Math.random) {
    this.all = all
    this.now = now
    this.random = random
  }

  /** The endpoint of the next request. A replay avoids the first endpoint, `not`, if there is another. */
  choose(not?: Endpoint): Endpoint {
    if (this.all.length === 1) return this.all[0]!
    const ready = this.all.filter((endpoint) => endpoint !== not && this.ready(endpoint))
    const from = ready.length > 0 ? ready : this.all
    const at = Math.floor(this.random() * from.length)
    const first = from[at]!
    // A different one: with the same one twice, one of two endpoints that hangs would get a quarter of the requests.
    const step = 1 + Math.floor(this.random() * (from.length - 1))
    const second = from[(at + step) % from.length]!
    const chosen = second.inFlight < first.inFlight ? second : first
    if (chosen.ejected) chosen.probing = true
    return chosen
  }

  private ready(endpoint: Endpoint): boolean {
    if (!endpoint.ejected) return true
    return !endpoint.probing && endpoint.ejectedUntil <= this.now()
  }

  succeeded(endpoint: Endpoint): void {
    endpoint.probing = false
    if (endpoint.state === 'up') return
    endpoint.failures = 0
    endpoint.ejectedUntil = 0
    endpoint.ejections = 0
    endpoint.log.recovered(this.now())
  }

  /** `request`: the body of the request that failed. */
  failed(endpoint: Endpoint, failure: Failure, request: Body = ''): void {
    this.count(endpoint)
    endpoint.log.failed(endpoint.state, failure, this.now(), request)
  }

  private count(endpoint: Endpoint): void {
    const probed = endpoint.probing
    endpoint.probing = false
    endpoint.failures++
    if (!probed && (endpoint.ejected || endpoint.failures < failuresToEject)) return
    const others = this.all.some((other) => other !== endpoint && !other.ejected)
    if (!others) return
    endpoint.ejectedUntil =
      this.now() + Math.min(maxEjection, firstEjection * 2 ** endpoint.ejections)
    endpoint.ejections++
  }

  /** Neither a success nor a failure of the endpoint: the caller has left, for example. */
  abandoned(endpoint: Endpoint): void {
    endpoint.probing = false
  }
}
