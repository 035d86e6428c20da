/** The leg between here and an endpoint: choose ▸ send, perhaps once more ▸ how it went. */

import type { AnswerSink, Inbound, Sent } from '../listen/types.ts'
import type { Supplier } from '../supplier.ts'
import type { Failure } from '../upstream/endpoint-log.ts'
import type { Endpoint } from '../upstream/endpoints.ts'
import { header, towardsSupplier } from './headers.ts'

export interface LegContext {
  via: string | null
  trusted: (remote: string) => boolean
}

export class Leg {
  /** From sending to the end, whatever it was; 0 where nothing was sent. */
  tookMs = 0
  private readonly supplier: Supplier
  private endpoint: Endpoint | null = null
  private sent: Sent | null = null
  /** `performance.now()`. */
  sentAt = 0

  constructor(supplier: Supplier) {
    this.supplier = supplier
  }

  /** `fresh`: on a new connection, to another endpoint where there is one. */
  send(
    inbound: Inbound,
    body: Buffer,
    context: LegContext,
    fresh: boolean,
    sink: AnswerSink,
  ): void {
    const endpoint = this.supplier.endpoints.choose(this.endpoint ?? undefined)
    this.endpoint = endpoint
    endpoint.inFlight++
    const headers = towardsSupplier(inbound.headers, endpoint.host, body.length, {
      remote: inbound.remote,
      trusted: context.trusted(inbound.remote),
      proto: inbound.secure ? 'https' : 'http',
      host: header(inbound.headers, 'host') ?? '',
      via: context.via,
    })
    this.sentAt = performance.now()
    const connection = endpoint.connections.take(fresh)
    this.sent = connection
    connection.dispatch(endpoint.target(inbound.query), headers, body, sink)
  }

  /** It came to its end; null: neither the endpoint's merit nor its fault. */
  over(end: 'good' | Failure | null): void {
    const { endpoint, sent, supplier } = this
    if (endpoint === null || sent === null) return
    this.tookMs = performance.now() - this.sentAt
    this.sent = null
    endpoint.inFlight--
    if (end === null) supplier.endpoints.abandoned(endpoint)
    else if (end === 'good') supplier.endpoints.succeeded(endpoint)
    else supplier.endpoints.failed(endpoint, end)
  }

  /** Nobody waits for it any more. */
  abort(end: 'timeout' | null): void {
    this.sent?.abort()
    this.over(end)
  }
}
