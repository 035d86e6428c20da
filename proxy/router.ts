/** Routes the requests of the proxy listener: `/bid/<ssp>` begins an exchange, `/pass/<ssp>/…` is forwarded to the origin. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Exchange, type ExchangeContext } from './exchange/exchange.ts'
import { onChunkTooLarge } from './listen/chunk-sizes.ts'
import { type Http2Request, requireHttp1 } from './listen/http2.ts'
import { headFault, inboundOf, pathOf } from './listen/node-http.ts'
import type { Refusal } from './metrics.ts'
import type { PassThrough } from './pass/pass.ts'
import type { PassTarget } from './pass/upgrade.ts'
import { type ProblemCode, problem } from './problem.ts'
import type { Supplier } from './supplier.ts'
import type { Inbound } from './types.ts'
import { closingResponse, isHost } from './wire/headers.ts'

interface RouterDeps {
  suppliers: ReadonlyMap<string, Supplier>
  /** Origins of `/pass`, by supplier. */
  passOrigins: ReadonlyMap<string, string>
  context: ExchangeContext
  pass: PassThrough
  onClosed(reason: string): void
  /** Whether the connection ends with this response. */
  isLast(response: ServerResponse): boolean
}

const bidPath = /^\/bid\/([a-z0-9][a-z0-9_-]{0,62})(\?.*)?$/s
const passPath = /^\/pass\/([a-z0-9][a-z0-9_-]{0,62})(\/.*|\?.*)?$/s

const notFound = closingResponse('404 Not Found')

export class Router {
  private readonly deps: RouterDeps

  constructor(deps: RouterDeps) {
    this.deps = deps
  }

  /** A request of the fast lane. Null: the general lane serves it, or refuses it. */
  beginFast(inbound: Inbound, supplier: Supplier, length: number): Exchange | null {
    if (this.bidFault(inbound, length, supplier) !== null) return null
    return new Exchange(inbound, supplier, this.deps.context)
  }

  /** A request of the general lane. */
  receive(request: IncomingMessage, response: ServerResponse): void {
    const fault = headFault(request)
    if (fault !== null) return this.refuse(response, fault, true)
    const url = pathOf(request.url!)
    const bid = bidPath.exec(url)
    if (bid === null) return this.passOn(request, response, url)
    const supplier = this.deps.suppliers.get(bid[1]!)
    if (supplier === undefined) return this.refuse(response, 'not_found')
    this.receiveBid(request, response, bid[2] ?? '', supplier)
  }

  /** A request over HTTP/2. */
  receiveHttp2(request: Http2Request): void {
    const { stream, inbound, target, host, method } = request
    if (host === null || !isHost(host)) return this.refuseHttp2(request, 'host')
    const bid = bidPath.exec(pathOf(target))
    if (bid === null) {
      if (this.passTarget(pathOf(target)) !== null) return requireHttp1(stream)
      return this.refuseHttp2(request, 'not_found')
    }
    const supplier = this.deps.suppliers.get(bid[1]!)
    if (supplier === undefined) return this.refuseHttp2(request, 'not_found')
    inbound.head.query = bid[2] ?? ''
    const fault = method === 'POST' ? this.bidFault(inbound, request.length, supplier) : 'method'
    if (fault !== null) {
      this.countRefusal(inbound, method, supplier, fault)
      return this.refuseHttp2(request, fault)
    }
    const exchange = new Exchange(inbound, supplier, this.deps.context)
    stream.on('close', () => exchange.callerGone())
    if (exchange.admit() !== null) return void stream.resume()
    exchange.awaitBody()
    stream.on('data', (chunk: Buffer) => {
      if (!exchange.receiveBody(chunk)) this.refuseHttp2(request, 'body')
    })
    stream.on('end', () => exchange.bodyReceived())
  }

  private refuseHttp2({ stream, inbound }: Http2Request, code: ProblemCode): void {
    const { head, body } = problem(code)
    if (inbound.reply.open) inbound.reply.sendWhole(head, body.length, body)
    stream.resume()
  }

  private receiveBid(
    request: IncomingMessage,
    response: ServerResponse,
    query: string,
    supplier: Supplier,
  ): void {
    const { context, onClosed, isLast } = this.deps
    const inbound = inboundOf(request, response, query, isLast)
    const length = Number(request.headers['content-length'] ?? 0)
    const fault = request.method === 'POST' ? this.bidFault(inbound, length, supplier) : 'method'
    if (fault !== null) {
      this.countRefusal(inbound, request.method!, supplier, fault)
      return this.refuse(response, fault)
    }
    const exchange = new Exchange(inbound, supplier, context)
    if (exchange.admit() !== null) return
    exchange.awaitBody()
    request.on('data', (chunk: Buffer) => {
      // The rest is read and discarded: a close while the caller still writes would reset the connection.
      if (!exchange.receiveBody(chunk) && !response.headersSent) this.refuse(response, 'body')
    })
    onChunkTooLarge(request, () => {
      exchange.refuseBody(413)
      if (!response.headersSent) this.refuse(response, 'body')
    })
    request.on('end', () => exchange.bodyReceived())
    // The body was cut short. The 'close' event of the response follows, and ends the exchange.
    request.on('error', () => onClosed('reset'))
    response.on('close', () => exchange.callerGone())
  }

  private countRefusal(inbound: Inbound, method: string, supplier: Supplier, fault: Refusal): void {
    const { accessLog, refused } = this.deps.context
    const { protocol, remote, arrived } = inbound
    const { id: ssp, metrics } = supplier
    const durationMs = performance.now() - arrived
    metrics.refused(fault)
    metrics.finished('refused', durationMs, 0)
    const { head, body } = problem(fault)
    const { status } = head
    refused.addRequest({
      ...{ time: Date.now(), ssp, outcome: 'refused', reason: fault, status, protocol, durationMs },
      endpoint: null,
    })
    if (accessLog?.selects(ssp, 'refused', status, durationMs))
      accessLog.write({
        ...{ ssp, outcome: 'refused', status, durationMs, method, path: `/bid/${ssp}` },
        ...{ protocol, remote, received: 0, sent: body.length, upstream: null },
      })
  }

  /** Why a bid request is refused by its head. */
  private bidFault(inbound: Inbound, length: number, { callers }: Supplier): Refusal | null {
    const { trusted, limits } = this.deps.context
    const fault = callers === null ? null : callers(inbound, trusted)
    if (fault !== null) return fault
    return length > limits.maxRequestBytes ? 'body' : null
  }

  private refuse(response: ServerResponse, code: ProblemCode, close = false): void {
    const { head, body } = problem(code)
    const { status, message } = head
    if (close || this.deps.isLast(response)) response.shouldKeepAlive = false
    response.writeHead(status, message, head.fieldsWith(body.length))
    response.end(body)
  }

  private passOn(request: IncomingMessage, response: ServerResponse, url: string): void {
    const target = this.passTarget(url)
    if (target === null) return this.refuse(response, 'not_found')
    if (request.method === 'TRACE') return this.refuse(response, 'trace')
    this.deps.pass.web(request, response, target, this.deps.isLast)
  }

  private passTarget(url: string): PassTarget | null {
    const match = passPath.exec(url)
    const origin = match === null ? undefined : this.deps.passOrigins.get(match[1]!)
    if (origin === undefined) return null
    const rest = match![2] ?? '/'
    return { origin, path: rest[0] === '/' ? rest : `/${rest}` }
  }

  upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const target = headFault(request) === null ? this.passTarget(pathOf(request.url!)) : null
    if (target === null) socket.end(notFound)
    else this.deps.pass.upgrade(request, socket, head, target)
  }
}
