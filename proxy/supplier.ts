/** One supplier at run time: what its configuration and the directory bound for its requests. */
import type { Log } from '../opd/shared/log.ts'
import { type Allotment, Bucket, type Refusal } from './admission.ts'
import { type CallerCheck, callerCheck } from './callers.ts'
import type { Route } from './config.ts'
import { Gate } from './gate.ts'
import type { SupplierMetrics } from './metrics.ts'
import { EndpointLog } from './upstream/endpoint-log.ts'
import { Endpoint, Endpoints } from './upstream/endpoints.ts'
import type { Upstream } from './upstream/pool.ts'

const noSeats: ReadonlySet<string> = new Set()
const unlimited: Allotment = { active: true, clientQps: null }

export class Supplier {
  readonly id: string
  readonly metrics: SupplierMetrics
  route: Route
  endpoints: Endpoints
  callers: CallerCheck | null
  /** From admission to the answer, queued ones included. */
  inFlight = 0
  /** Kept when the configuration changes: what was learned about the supplier holds. */
  readonly gate = new Gate()
  inactiveSeats = noSeats
  private allotment = unlimited
  private share = 1
  private bucket: Bucket | null = null
  private readonly log: Log

  constructor(route: Route, metrics: SupplierMetrics, upstream: Upstream, log: Log) {
    this.log = log
    this.id = route.id
    this.route = route
    this.metrics = metrics
    this.endpoints = new Endpoints(route.endpoints.map((url) => this.endpoint(url, upstream)))
    this.callers = callerCheck(route.callers)
  }

  private endpoint(url: string, upstream: Upstream): Endpoint {
    return new Endpoint(url, upstream, new EndpointLog(this.log, this.id, url))
  }

  /** Takes a new configuration; endpoints that stay keep their connections and their standing. */
  configure(route: Route, upstream: Upstream): void {
    const standing = new Map(this.endpoints.all.map((endpoint) => [endpoint.url.href, endpoint]))
    const next = route.endpoints.map((text) => {
      const { href } = new URL(text)
      const known = standing.get(href)
      standing.delete(href)
      return known ?? this.endpoint(text, upstream)
    })
    for (const endpoint of standing.values()) endpoint.connections.close()
    this.endpoints = new Endpoints(next)
    this.route = route
    this.callers = callerCheck(route.callers)
  }

  /** What the directory says now; `share` of the allotment is this node's (1 / live nodes). */
  admit(allotment: Allotment | undefined, inactiveSeats: ReadonlySet<string>, share: number): void {
    const next = allotment ?? unlimited
    this.inactiveSeats = inactiveSeats
    if (next.clientQps !== this.allotment.clientQps || share !== this.share)
      this.bucket =
        next.clientQps === null ? null : new Bucket(next.clientQps * share, performance.now())
    this.allotment = next
    this.share = share
  }

  /** `overloaded`: the node takes no more. What is refused for overload takes no token. */
  refusal(now: number, overloaded: boolean): Refusal | null {
    if (!this.allotment.active) return 'inactive'
    if (overloaded || this.inFlight >= this.maxInFlight) return 'overload'
    if (this.gate.refuses(now + this.route.timeout, now)) return 'overload'
    return this.bucket === null || this.bucket.take(now) ? null : 'qps'
  }

  /** An admitted request is refused for overload before it was sent. */
  giveBack(): void {
    this.bucket?.giveBack()
  }

  private maxInFlight = Number.POSITIVE_INFINITY

  /** `highest`: requests in flight of one supplier, whatever its own configuration says. */
  limit(highest: number): void {
    const { maxInFlight } = this.route
    this.maxInFlight = highest
    this.gate.configure(maxInFlight === 'auto' ? null : maxInFlight, highest, performance.now())
  }

  /** Queries per second of this node's share; null: no limit. */
  get clientQps(): number | null {
    return this.allotment.clientQps === null ? null : this.allotment.clientQps * this.share
  }

  get active(): boolean {
    return this.allotment.active
  }

  close(): void {
    for (const endpoint of this.endpoints.all) endpoint.connections.close()
  }

  destroy(): void {
    for (const endpoint of this.endpoints.all) endpoint.connections.destroy()
  }
}
