/** The proxy as main.ts knows it: bid traffic in, supplier endpoints out. create ▸ listen ▸ drain ▸ close. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import type { Engine } from '../opd/engine/types.ts'
import type { Log } from '../opd/shared/log.ts'
import { type Allotment, type Budget, LoopLag } from './admission.ts'
import { type AddressCheck, addressCheck } from './callers.ts'
import type { ProxyConfig, Route } from './config.ts'
import { Exchange, type ExchangeContext } from './exchange/exchange.ts'
import { RequestDecoder } from './exchange/request-decoder.ts'
import { bindMetrics } from './exposition.ts'
import { createListener } from './listen/listener.ts'
import { inboundOf } from './listen/node-http.ts'
import { headFault, pathOf } from './listen/node-http-head.ts'
import type { FastGate } from './listen/strict-connection.ts'
import type { Inbound } from './listen/types.ts'
import { heldLimit } from './memory.ts'
import { SupplierMetrics } from './metrics.ts'
import { createPassThrough } from './pass/pass.ts'
import { type ProblemCode, problem } from './problem.ts'
import { Supplier } from './supplier.ts'
import { createResolver } from './upstream/resolver.ts'

/** What the directory says of one supplier at this node's location. */
export interface Standing {
  inactiveSeats: ReadonlySet<string>
  allotment: Allotment | undefined
}

export interface BidProxy {
  listen(): Promise<AddressInfo>
  /** Limits, for all suppliers at once. */
  configure(config: ProxyConfig): void
  /** Takes in one supplier, or what is new of it. Without endpoints there is no `/bid` for it. */
  setRoute(route: Route): void
  /** Forgets one supplier; its requests in flight are answered. */
  removeRoute(supplier: string): void
  /** The directory changed, or the number of live nodes; `share` of each allotment is this node's. */
  admit(standing: (supplier: string) => Standing | undefined, share: number): void
  drain(): void
  /** Resolves when every request in flight has been answered. */
  close(): Promise<void>
  destroy(): void
  /** Suppliers as the dashboard shows them. */
  readonly suppliers: ReadonlyMap<string, Supplier>
}

const bidPath = /^\/bid\/([a-z0-9][a-z0-9_-]{0,62})(\?.*)?$/s
const passPath = /^\/pass\/([a-z0-9][a-z0-9_-]{0,62})(\/.*|\?.*)?$/s

export function createProxy(
  config: ProxyConfig,
  routes: readonly Route[],
  deps: { engine: Engine; registry: Registry; log: Log; lane?: 'fast' | 'general' },
): BidProxy {
  const { engine, registry, log, lane = 'fast' } = deps
  const closed = new Map<string, number>()
  const onClosed = (reason: string) => closed.set(reason, (closed.get(reason) ?? 0) + 1)
  const budget: Budget = { inFlight: 0, bytes: 0 }
  const decoder = new RequestDecoder(budget, () => context.limits)
  const suppliers = new Map<string, Supplier>()
  /** Origins behind /pass, by supplier. */
  const passes = new Map<string, string>()
  let standing: Parameters<BidProxy['admit']>[0] = () => undefined
  let share = 1
  let maxInFlight = config.maxInFlightPerSupplier
  const kept = new Map<string, SupplierMetrics>()
  let trusted: AddressCheck = () => false
  const bound = bindMetrics(registry, {
    suppliers: () => suppliers.values(),
    connections: () => listener.connections,
    heldBytes: () => budget.bytes,
    maxHeldBytes: () => context.limits.maxHeldBytes,
    decoder,
    closed,
  })
  const lag = new LoopLag(bound.lag)
  const resolver = createResolver({
    onError: (hostname, error) =>
      log.warn({ hostname, err: error.message }, 'endpoint name not resolved, last addresses kept'),
  })
  const upstream = { resolver, lane }
  const pass = createPassThrough({
    trusted: (remote) => trusted(remote),
    via: () => context.via,
    onError: () => onClosed('pass_upstream'),
  })
  const context: ExchangeContext = {
    engine,
    budget,
    lag,
    decoder,
    limits: { maxInFlight: 0, maxHeldBytes: 0, maxRequestBytes: 0, maxRewriteBytes: 0 },
    recompress: 'same',
    via: null,
    trusted: (remote) => trusted(remote),
  }

  const refuse = (response: ServerResponse, code: ProblemCode, close = false) => {
    const { status, message, headers, body } = problem(code)
    if (close || listener.ends(response)) response.shouldKeepAlive = false
    response.writeHead(status, message, headers)
    response.end(body)
  }

  /** What the head alone says against a bid. */
  const bidFault = (
    { method, headers }: IncomingMessage,
    inbound: Inbound,
    { callers }: Supplier,
  ): ProblemCode | null => {
    if (method !== 'POST') return 'method'
    if (callers !== null && !callers(inbound.remote, inbound.headers, trusted)) return 'caller'
    const length = Number(headers['content-length'] ?? 0)
    return length > context.limits.maxRequestBytes ? 'body' : null
  }

  const receive = (request: IncomingMessage, response: ServerResponse) => {
    const noRequest = headFault(request)
    if (noRequest !== null) return refuse(response, noRequest, true)
    const url = pathOf(request.url!)
    const bid = bidPath.exec(url)
    if (bid === null) return passOn(request, response, url)
    const supplier = suppliers.get(bid[1]!)
    if (supplier === undefined) return refuse(response, 'not_found')
    const inbound = inboundOf(request, response, bid[2] ?? '', listener.ends)
    const fault = bidFault(request, inbound, supplier)
    if (fault !== null) {
      supplier.metrics.finished('refused', performance.now() - inbound.arrived, 0)
      return refuse(response, fault)
    }
    const exchange = new Exchange(inbound, supplier, context)
    if (exchange.admit() !== null) return undefined
    exchange.awaitBody()
    request.on('data', (chunk: Buffer) => {
      // The rest is read and dropped: closed on, a caller that still writes would lose the answer to a reset.
      if (!exchange.receive(chunk) && !response.headersSent) refuse(response, 'body')
    })
    request.on('end', () => exchange.received())
    // A body cut short: 'close' of the answer follows and accounts for it.
    request.on('error', () => onClosed('reset'))
    response.on('close', () => exchange.callerGone())
    return undefined
  }

  /** What `receive` would not say a word to begins here without node:http. */
  const begin: FastGate['begin'] = (inbound, { supplier: id, length }) => {
    const supplier = suppliers.get(id)
    if (supplier === undefined || length > context.limits.maxRequestBytes) return null
    if (supplier.callers !== null && !supplier.callers(inbound.remote, inbound.headers, trusted))
      return null
    return new Exchange(inbound, supplier, context)
  }

  const passTarget = (url: string) => {
    const match = passPath.exec(url)
    const origin = match === null ? undefined : passes.get(match[1]!)
    if (origin === undefined) return null
    const rest = match![2] ?? '/'
    return { origin, path: rest[0] === '/' ? rest : `/${rest}` }
  }

  const passOn = (request: IncomingMessage, response: ServerResponse, url: string) => {
    const target = passTarget(url)
    if (target === null) return refuse(response, 'not_found')
    if (request.method === 'TRACE') return refuse(response, 'trace')
    return pass.web(request, response, target.origin, target.path, listener.ends)
  }

  const listener = createListener({
    config,
    onClosed,
    onRequest: receive,
    begin: lane === 'fast' ? begin : null,
    onUpgrade(request, socket, head) {
      const target = headFault(request) === null ? passTarget(pathOf(request.url!)) : null
      if (target === null)
        return void socket.end(
          'HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n',
        )
      return pass.upgrade(request, socket, head, target.origin, target.path)
    },
  })

  const configure = (next: ProxyConfig) => {
    trusted = addressCheck(next.trustedProxies)
    context.limits = {
      maxHeldBytes: heldLimit(next.maxHeldBytes),
      maxInFlight: next.maxInFlight,
      maxRequestBytes: next.maxRequestBytes,
      maxRewriteBytes: next.maxRewriteBytes,
    }
    context.recompress = next.recompress
    context.via = next.via ? '1.1 bidweir' : null
    listener.configure(next)
    maxInFlight = next.maxInFlightPerSupplier
    for (const supplier of suppliers.values()) supplier.limit(maxInFlight)
  }

  const admitOne = (supplier: Supplier) => {
    const now = standing(supplier.id)
    supplier.admit(now?.allotment, now?.inactiveSeats ?? new Set(), share)
  }

  const added = (route: Route): Supplier => {
    const metrics = kept.get(route.id) ?? new SupplierMetrics()
    kept.set(route.id, metrics)
    const supplier = new Supplier(route, metrics, upstream, log)
    supplier.limit(maxInFlight)
    admitOne(supplier)
    return supplier
  }

  const removed = (id: string) => {
    suppliers.get(id)?.close()
    suppliers.delete(id)
  }

  const setRoute = (next: Route) => {
    const { id, endpoints, passThrough } = next
    if (passThrough === undefined) passes.delete(id)
    else passes.set(id, passThrough)
    const known = suppliers.get(id)
    if (endpoints.length === 0) removed(id)
    else if (known === undefined) suppliers.set(id, added(next))
    else {
      known.configure(next, upstream)
      known.limit(maxInFlight)
    }
  }
  configure(config)
  for (const each of routes) setRoute(each)

  return {
    listen: () => listener.listen(),
    configure,
    setRoute,
    removeRoute(id) {
      passes.delete(id)
      removed(id)
    },
    admit(says, part) {
      standing = says
      share = part
      for (const supplier of suppliers.values()) admitOne(supplier)
    },
    drain: () => listener.drain(),
    async close() {
      pass.closeUpgraded()
      await listener.close()
      lag.close()
      resolver.close()
      pass.close()
      for (const supplier of suppliers.values()) supplier.destroy()
    },
    destroy() {
      listener.destroy()
      for (const supplier of suppliers.values()) supplier.destroy()
    },
    suppliers,
  }
}
