/**
 * The endpoints of one supplier, and what is known of each. A request goes to the less loaded of two (endpoint-table.ts). An
 * endpoint that fails repeatedly is ejected for a growing time, then probed with one request. The last endpoint is never
 * ejected.
 */
import type { Body } from '../../opd/json/scanner.ts'
import type { Forwarded, ForwardedFields } from '../types.ts'
import type { ConfiguredHeaders } from '../wire/configured-headers.ts'
import { header, towardsSupplier } from '../wire/headers.ts'
import { CommonFields, OutgoingRequest, RequestStart } from '../wire/outgoing-heads.ts'
import type { EndpointConfig, OutlierConfig } from './config.ts'
import {
  type EndpointLog,
  type EndpointState,
  type Failure,
  failureText,
  isLocalFault,
} from './endpoint-log.ts'
import { type Choosable, EndpointTable } from './endpoint-table.ts'
import { ConnectionPool, type Upstream } from './pool.ts'

const never = Number.POSITIVE_INFINITY

/** One URL of a supplier, with its connections and its state. */
export class Endpoint implements Choosable {
  // What each request reads comes first, and lies together in memory.
  readonly pool: ConnectionPool
  inFlight = 0
  /** Consecutive, up to the last request. */
  failures = 0
  /** `performance.now()` until which no request is sent; 0: not ejected. */
  ejectedUntil = 0
  /** Of requests without a query of the caller, which is appended to the endpoint's own path. The text is that of `start`. */
  readonly startText: string
  readonly start: RequestStart
  readonly path: string
  readonly host: string
  /** It has a query of its own, to which the caller's is appended. */
  private readonly hasQuery: boolean
  readonly url: URL
  /** Origin and path, which are shown; the query may be a secret. */
  readonly name: string
  readonly log: EndpointLog
  weight = 1
  zone: string | undefined
  priority = 0
  ejections = 0
  probing = false
  /** Why it fails its health checks; null: it does not, or there are none. */
  unhealthy: string | null = null
  /** What an operator has decided, until a time of `performance.now()`; null: nothing. */
  override: EndpointOverride | null = null
  /** `performance.now()` of the last change of its state; 0: none. */
  changedAt = 0
  lastFailure: { text: string; time: number } | null = null
  /** Requests, failures and milliseconds since `watchedSince`, if shares of them eject. */
  readonly watched = { since: 0, requests: 0, failures: 0, ms: 0 }

  constructor(config: EndpointConfig, upstream: Upstream, log: EndpointLog) {
    this.url = new URL(config.url)
    this.hasQuery = this.url.search !== ''
    this.path = this.url.pathname + this.url.search
    this.host = this.url.host
    this.start = new RequestStart(this.path, ['Host', this.host])
    this.startText = this.start.text
    this.name = this.url.origin + this.url.pathname
    this.pool = new ConnectionPool(this.url.origin, upstream)
    this.log = log
    this.configure(config)
  }

  /** @param config of the same URL; it takes effect in the `Endpoints` that is made next */
  configure({ weight, zone, priority }: EndpointConfig): void {
    this.weight = weight
    this.zone = zone
    this.priority = priority
  }

  get ejected(): boolean {
    return this.ejectedUntil > 0
  }

  get available(): boolean {
    return this.usable && (this.unhealthy === null || this.override?.state === 'in')
  }

  get usable(): boolean {
    return this.override === null ? !this.ejected : this.override.state === 'in'
  }

  get state(): EndpointState {
    if (this.override?.state === 'out') return 'out'
    if (this.override === null) {
      if (this.unhealthy !== null) return 'unhealthy'
      if (this.ejected) return 'ejected'
    }
    return this.failures > 0 ? 'failing' : 'up'
  }

  /** Why it is not up, and the time of `performance.now()` at which its state ends by itself. */
  get outage(): { reason: string | null; nextTry: number | null } {
    const { override, state, lastFailure, unhealthy, ejectedUntil } = this
    if (override !== null) return { reason: 'operator', nextTry: override.until }
    if (state === 'unhealthy') return { reason: `health check: ${unhealthy}`, nextTry: null }
    const reason = lastFailure?.text ?? null
    if (state === 'ejected') return { reason, nextTry: ejectedUntil }
    return { reason: state === 'up' ? null : reason, nextTry: null }
  }

  /** @param query of the caller, `?…` */
  startWith(query: string): RequestStart {
    const { start, path } = this
    const target = this.hasQuery ? `${path}&${query.slice(1)}` : path + query
    return new RequestStart(target, start.fields)
  }
}

/** `out`: it gets no requests. `in`: it gets requests whatever its state. */
export interface EndpointOverride {
  state: 'out' | 'in'
  until: number
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

/** It gets one request when its ejection ends. */
const isProbable = ({ ejected, probing, unhealthy, override }: Endpoint) =>
  ejected && !probing && unhealthy === null && override === null

function endEjection(endpoint: Endpoint): void {
  endpoint.failures = 0
  endpoint.ejections = 0
  endpoint.ejectedUntil = 0
  endpoint.probing = false
}

/** Milliseconds over which `errorShare` and `latencyShare` are measured. */
const watchTime = 10_000

/** The endpoints of a supplier: chooses one for each request, and ejects those that fail. */
export class Endpoints {
  // What each request reads comes first, and lies together in memory.
  /** null: there are several. */
  private readonly only: Endpoint | null
  private readonly watches: boolean
  readonly all: readonly Endpoint[]
  private readonly outliers: OutlierConfig
  private readonly timeout: number
  private readonly zone: string | null
  private readonly now: () => number
  private readonly random: () => number
  private table: EndpointTable<Endpoint>
  /** The next time at which the table is prepared without a change of a state: an ejection ends. */
  private due = never

  constructor(all: readonly Endpoint[], options: EndpointsOptions) {
    const { outliers, timeout, zone, now = () => performance.now(), random = Math.random } = options
    this.all = all
    this.only = all.length === 1 ? all[0]! : null
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

  /**
   * The endpoint of the next request. It must be reported: by `succeeded`, `failed` or `abandoned`.
   *
   * @param not the endpoint of the first attempt, which a replay avoids if there is another
   */
  choose(not?: Endpoint): Endpoint {
    if (this.only !== null) return this.only
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
      if (!isProbable(endpoint) || endpoint.ejectedUntil > now || endpoint === not) continue
      endpoint.probing = true
      this.prepare()
      return endpoint
    }
    if (this.all.some(({ override }) => override !== null && override.until <= now)) this.refresh()
    return null
  }

  /** Ends what operators have decided when its time is over. */
  refresh(): void {
    const now = this.now()
    for (const endpoint of this.all)
      if (endpoint.override !== null && endpoint.override.until <= now)
        this.setOverride(endpoint, null)
  }

  /** @param override with a time in the future */
  setOverride(endpoint: Endpoint, override: EndpointOverride | null): void {
    const before = endpoint.override
    if (before?.state === override?.state && before?.until === override?.until) return
    endpoint.override = override
    if (override?.state === 'in') endEjection(endpoint)
    this.changed(endpoint)
    if (before?.state === override?.state) return
    const reason = override === null ? 'operator_ended' : 'operator'
    endpoint.log.changed(endpoint.state, { reason })
  }

  /** @param fault why the endpoint fails its health checks; null: it passes them again, which ends an ejection, too */
  setHealth(endpoint: Endpoint, fault: string | null): void {
    const before = endpoint.unhealthy
    endpoint.unhealthy = fault
    if ((before === null) === (fault === null)) return
    if (fault === null) endEjection(endpoint)
    this.changed(endpoint)
    const fields = fault === null ? {} : { err: fault }
    endpoint.log.changed(endpoint.state, { reason: 'health_check', ...fields })
  }

  private changed(endpoint: Endpoint): void {
    endpoint.changedAt = this.now()
    this.prepare()
  }

  private prepare(): void {
    this.table = this.prepared()
  }

  private prepared(): EndpointTable<Endpoint> {
    this.due = never
    for (const endpoint of this.all) {
      if (isProbable(endpoint)) this.due = Math.min(this.due, endpoint.ejectedUntil)
      if (endpoint.override !== null) this.due = Math.min(this.due, endpoint.override.until)
    }
    return new EndpointTable(this.all, this.zone)
  }

  /** @param ms how long the request took */
  succeeded(endpoint: Endpoint, ms = 0): void {
    if (this.watches && this.watch(endpoint, ms, false)) return this.slow(endpoint)
    if (endpoint.failures === 0 && endpoint.ejectedUntil === 0) return
    const { ejected } = endpoint
    endEjection(endpoint)
    const now = this.now()
    endpoint.changedAt = now
    if (ejected) this.prepare()
    if (endpoint.state === 'up') endpoint.log.recovered(now)
  }

  private slow(endpoint: Endpoint): void {
    endpoint.lastFailure = { text: failureText('slow'), time: this.now() }
    this.eject(endpoint)
    endpoint.log.failed(endpoint.state, 'slow', this.now(), '')
  }

  /**
   * Counts a failure, which may eject the endpoint. A fault of this node, such as a lack of file descriptors, does not count.
   *
   * @param endpoint that `choose` returned
   * @param failure the error of the connection, the deadline, or the status of the response
   * @param request the body of the request that failed; its id is logged
   * @param ms milliseconds that it took
   */
  failed(endpoint: Endpoint, failure: Failure, request: Body = '', ms = 0): void {
    const now = this.now()
    if (isLocalFault(failure)) {
      endpoint.log.failedLocally(failure, now)
      return this.abandoned(endpoint)
    }
    endpoint.lastFailure = { text: failureText(failure), time: now }
    if (endpoint.failures === 0) endpoint.changedAt = now
    this.count(endpoint, ms)
    endpoint.log.failed(endpoint.state, failure, now, request)
  }

  private count(endpoint: Endpoint, ms: number): void {
    const { probing } = endpoint
    endpoint.probing = false
    endpoint.failures++
    const isOutlier = this.watches && this.watch(endpoint, ms, true)
    if (endpoint.override !== null) return
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
    if (endpoint.ejected || endpoint.override !== null) return false
    const ejected = this.all.filter((endpoint) => endpoint.ejected).length
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
    this.changed(endpoint)
  }

  /**
   * Neither a success nor a failure of the endpoint: the caller has left, for example.
   *
   * @param endpoint that `choose` returned
   */
  abandoned(endpoint: Endpoint): void {
    if (!endpoint.probing) return
    endpoint.probing = false
    this.prepare()
  }
}

/** What the head of a bid request for an endpoint depends on besides its caller, its supplier and the endpoint. */
export interface AttemptContext {
  via: string | null
  trusted: (remote: string) => boolean
}

/** The fields for any supplier. They are made once while the caller, whose connection and address are the same, repeats its own. */
function forwardedFields(
  { head, remote, secure }: Forwarded,
  { via, trusted: trusts }: AttemptContext,
): ForwardedFields {
  const trusted = trusts(remote)
  const { forwarded } = head
  if (forwarded?.trusted === trusted && forwarded.via === via) return forwarded
  const proto = secure ? 'https' : 'http'
  const host = header(head.fields, 'host') ?? ''
  const fields = towardsSupplier(head.fields, { remote, via, trusted, proto, host })
  head.forwarded = { fields: new CommonFields(fields), trusted, via, last: null }
  return head.forwarded
}

/**
 * The head for an endpoint. It is made once while the caller asks for the same supplier with the same fields.
 *
 * @param inbound the request of the caller
 * @param endpoint where it is sent
 * @param rules headers of the supplier that are added or removed; null: none
 * @param context whose forwarded addresses are trusted, and the value of `Via`, null: it is not sent
 */
export function requestHead(
  inbound: Forwarded,
  endpoint: Endpoint,
  rules: ConfiguredHeaders | null,
  context: AttemptContext,
): OutgoingRequest {
  const forwarded = forwardedFields(inbound, context)
  const { last, fields } = forwarded
  const { query } = inbound.head
  if (last?.endpoint === endpoint && last.rules === rules && last.query === query) return last.head
  const head = newHead(endpoint, query, fields, rules)
  forwarded.last = { head, endpoint, rules, query }
  return head
}

function newHead(
  endpoint: Endpoint,
  query: string,
  fields: CommonFields,
  rules: ConfiguredHeaders | null,
): OutgoingRequest {
  const isOwn = query.length <= 1
  if (isOwn && rules === null)
    return new OutgoingRequest(endpoint.start, fields, endpoint.startText)
  const start = isOwn ? endpoint.start : endpoint.startWith(query)
  if (rules === null) return new OutgoingRequest(start, fields)
  const all = rules.apply([...start.fields, ...fields.fields])
  return new OutgoingRequest(new RequestStart(start.path, all))
}
