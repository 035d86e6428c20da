/** One bid request at an endpoint of its supplier. Its result counts when the endpoints of later requests are chosen. */

import type { Supplier } from '../supplier.ts'
import type { Body, Forwarded, ResponseSink, UpstreamRequest } from '../types.ts'
import type { Failure } from '../upstream/endpoint-log.ts'
import {
  type AttemptContext,
  type Endpoint,
  type Endpoints,
  requestHead,
} from '../upstream/endpoints.ts'

export class UpstreamAttempt {
  /** `performance.now()` at which the request was sent, and milliseconds until its result; 0: not sent. */
  sentAt = 0
  durationMs = 0
  private readonly supplier: Supplier
  private endpoint: Endpoint | null = null
  private request: UpstreamRequest | null = null
  private body: Body = ''
  /** Of a supplier with a canary; null before the first attempt. */
  variant: 'main' | 'canary' | null = null

  constructor(supplier: Supplier) {
    this.supplier = supplier
  }

  /** null: not sent. */
  get url(): URL | null {
    return this.endpoint?.url ?? null
  }

  /** A second call is the replay that `Exchange.fail` decides: on a new connection, to another endpoint if there is one. */
  send(
    inbound: Forwarded,
    body: Body,
    context: AttemptContext,
    now: number,
    sink: ResponseSink,
  ): void {
    const fresh = this.endpoint !== null
    if (this.supplier.canary !== null)
      this.variant ??= this.supplier.isForCanary(body) ? 'canary' : 'main'
    const endpoint = this.endpoints.choose(this.endpoint ?? undefined)
    this.endpoint = endpoint
    endpoint.inFlight++
    this.body = body
    const head = requestHead(inbound, endpoint, this.supplier.headers, context)
    this.sentAt = now
    const connection = endpoint.pool.acquire(fresh, now)
    this.request = connection
    connection.dispatch(head, body, sink)
  }

  /** A reload may have removed the canary since the request was sent. */
  private get endpoints(): Endpoints {
    const { endpoints, canary } = this.supplier
    return this.variant === 'canary' && canary !== null ? canary.endpoints : endpoints
  }

  /** Null: the result says nothing about the endpoint. */
  finish(result: 'success' | Failure | null, now: number): void {
    const { endpoint, request } = this
    if (endpoint === null || request === null) return
    this.durationMs = now - this.sentAt
    this.request = null
    endpoint.inFlight--
    if (result === null) this.endpoints.abandoned(endpoint)
    else if (result === 'success') this.endpoints.succeeded(endpoint, this.durationMs)
    else this.endpoints.failed(endpoint, result, this.body, this.durationMs)
  }

  /** Cancels the request; its response is not needed any more. */
  abort(result: 'timeout' | null): void {
    this.request?.abort()
    this.finish(result, performance.now())
  }
}
