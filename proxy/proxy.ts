/** The proxy: accepts bid requests and sends them to endpoints of suppliers. create ▸ listen ▸ drain ▸ close. */
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import type { Engine } from '../opd/engine/types.ts'
import type { SharedTokens } from '../opd/ports.ts'
import type { Log } from '../opd/shared/log.ts'
import { type Allotment, leaseTokens } from './admission/allotment.ts'
import { addressCheck } from './admission/callers.ts'
import { type Budget, LoopLag } from './admission/overload.ts'
import type { ProxyConfig, Route } from './config.ts'
import type { ExchangeContext } from './exchange/exchange.ts'
import { RequestDecoder } from './exchange/request-decoder.ts'
import { bindMetrics } from './exposition.ts'
import { Listener } from './listen/listener.ts'
import { heldBytesLimit } from './memory.ts'
import { SupplierMetrics } from './metrics.ts'
import { type Gauges, loadsOf, type ProcessLoad } from './node-load.ts'
import { PassThrough } from './pass/pass.ts'
import { Router } from './router.ts'
import { Supplier } from './supplier.ts'
import type { BidTracer } from './tracer.ts'
import type { Upstream } from './upstream/pool.ts'
import { createResolver } from './upstream/resolver.ts'

/** The state of one supplier in the directory, at this node's location. */
export interface DirectoryState {
  inactiveSeats: ReadonlySet<string>
  allotment: Allotment | undefined
}

export type BidProxy = ReturnType<typeof createProxy>

export type ProxyCounters = BidProxy['counters']

export function createProxy(
  config: ProxyConfig,
  routes: readonly Route[],
  deps: {
    engine: Engine
    registry: Registry
    log: Log
    /** The nodes share one bucket of each allotment; null: each has its share. */
    sharedTokens?: SharedTokens | null
    /** Other processes of this node listen on the same port. */
    sharesPort?: boolean
    /** The gauges of those processes. */
    others?: () => Iterable<ProcessLoad>
    tracer?: BidTracer | null
  },
) {
  const {
    engine,
    registry,
    log,
    sharedTokens = null,
    sharesPort = false,
    others = () => [],
    tracer = null,
  } = deps
  const closed = new Map<string, number>()
  const onClosed = (reason: string) => closed.set(reason, (closed.get(reason) ?? 0) + 1)
  const budget: Budget = { inFlight: 0, bytes: 0 }
  const decoder = new RequestDecoder(budget, () => context.limits)
  const suppliers = new Map<string, Supplier>()
  /** Origins of `/pass`, by supplier. */
  const passOrigins = new Map<string, string>()
  let stateOf = (_supplier: string): DirectoryState | undefined => undefined
  let share = 1
  let maxInFlight = config.maxInFlightPerSupplier
  /** Metrics of all suppliers since the start: counters survive the removal of a supplier. */
  const metricsOf = new Map<string, SupplierMetrics>()
  const gauges = (): Gauges => ({
    connections: listener.connections,
    heldBytes: budget.bytes,
    maxHeldBytes: context.limits.maxHeldBytes,
    decoding: decoder.running,
    waiting: decoder.waiting,
  })
  const bound = bindMetrics(registry, { suppliers, gauges, others, decoder, closed })
  const lag = new LoopLag(bound.lag)
  const resolver = createResolver({
    onError: (hostname, error) =>
      log.warn(
        { hostname, err: error.message },
        'endpoint name not resolved, last addresses remain in use',
      ),
  })
  const upstream: Upstream = { resolver, lane: config.fastLane ? 'fast' : 'general' }
  const pass = new PassThrough({
    trusted: (remote) => context.trusted(remote),
    via: () => context.via,
    onError: () => onClosed('pass_upstream'),
  })
  const context: ExchangeContext = {
    engine,
    budget,
    lag,
    decoder,
    tracer,
    limits: { maxInFlight: 0, maxHeldBytes: 0, maxRequestBytes: 0, maxRewriteBytes: 0 },
    recompress: 'same',
    via: null,
    trusted: () => false,
  }

  const router = new Router({
    suppliers,
    passOrigins,
    context,
    pass,
    onClosed,
    isLast: (response) => listener.isLast(response),
  })
  const listener = new Listener({
    config,
    sharesPort,
    onClosed,
    onRequest: (request, response) => router.receive(request, response),
    beginFast: config.fastLane ? (...request) => router.beginFast(...request) : null,
    onUpgrade: (request, socket, head) => router.upgrade(request, socket, head),
  })

  const configure = (next: ProxyConfig) => {
    context.trusted = addressCheck(next.trustedProxies)
    context.limits = {
      maxHeldBytes: heldBytesLimit(next.maxHeldBytes),
      maxInFlight: next.maxInFlight,
      maxRequestBytes: next.maxRequestBytes,
      maxRewriteBytes: next.maxRewriteBytes,
    }
    context.recompress = next.recompress
    context.via = next.via ? '1.1 bidweir' : null
    listener.configure(next)
    if (next.maxInFlightPerSupplier === maxInFlight) return
    maxInFlight = next.maxInFlightPerSupplier
    for (const supplier of suppliers.values()) supplier.limit(maxInFlight)
  }

  const applyDirectory = (supplier: Supplier) => {
    const state = stateOf(supplier.id)
    const seats = state?.inactiveSeats ?? new Set<string>()
    supplier.setDirectoryState(state?.allotment, seats, share, sharedTokens !== null)
  }

  /** The metrics of a supplier; new ones at its first use. */
  const metricsFor = (id: string): SupplierMetrics => {
    const metrics = metricsOf.get(id) ?? new SupplierMetrics()
    metricsOf.set(id, metrics)
    return metrics
  }

  const add = (route: Route): Supplier => {
    const supplier = new Supplier(route, metricsFor(route.id), upstream, log)
    supplier.limit(maxInFlight)
    applyDirectory(supplier)
    return supplier
  }

  const remove = (id: string) => {
    suppliers.get(id)?.close()
    suppliers.delete(id)
  }

  /** Adds a supplier, or changes its configuration. A supplier without endpoints has no `/bid` path. */
  const setRoute = (next: Route) => {
    const { id, endpoints, passThrough } = next
    if (passThrough === undefined) passOrigins.delete(id)
    else passOrigins.set(id, passThrough)
    const known = suppliers.get(id)
    if (endpoints.length === 0) remove(id)
    else if (known === undefined) suppliers.set(id, add(next))
    else {
      known.configure(next, upstream)
      known.limit(maxInFlight)
    }
  }
  configure(config)
  for (const each of routes) setRoute(each)
  function* leasedBuckets() {
    for (const { leasedBucket } of suppliers.values()) if (leasedBucket !== null) yield leasedBucket
  }
  const leases =
    sharedTokens === null ? null : leaseTokens(sharedTokens, leasedBuckets, () => share)

  return {
    /** `port`: that of the first process, if several share it. */
    listen: (port?: number): Promise<AddressInfo> => listener.listen(port),
    /** Limits, for all suppliers at once. */
    configure,
    setRoute,
    /** Removes a supplier; its requests in flight get their responses. */
    removeRoute(id: string): void {
      passOrigins.delete(id)
      remove(id)
    },
    /** The directory or the number of live nodes has changed. `share`: 1 / live nodes. */
    setDirectory(next: typeof stateOf, nextShare: number): void {
      stateOf = next
      share = nextShare
      for (const supplier of suppliers.values()) applyDirectory(supplier)
    },
    drain: () => listener.drain(),
    /** Resolves when all requests in flight have their responses. */
    async close(): Promise<void> {
      pass.closeUpgraded()
      await listener.close()
      lag.close()
      leases?.close()
      resolver.close()
      pass.close()
      for (const supplier of suppliers.values()) supplier.destroy()
    },
    destroy(): void {
      listener.destroy()
      for (const supplier of suppliers.values()) supplier.destroy()
    },
    /** For the dashboard. */
    suppliers: suppliers as ReadonlyMap<string, Supplier>,
    /** The gauges of this process. */
    load: (): ProcessLoad => ({ ...gauges(), suppliers: loadsOf(suppliers.values()) }),
    /** The counters of this process, to which those of others can be added. `closed`: connections, by reason. */
    counters: {
      suppliers: metricsOf as ReadonlyMap<string, SupplierMetrics>,
      of: metricsFor,
      closed,
      decoder: decoder as { bytes: number },
      ...bound,
    },
  }
}
