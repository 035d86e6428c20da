/** The proxy: accepts bid requests and sends them to endpoints of suppliers. create ▸ listen ▸ drain ▸ close. */
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import { GzipEncoder } from '../opd/base/gzip-encoder.ts'
import type { Log } from '../opd/base/log.ts'
import type { SharedTokens } from '../opd/ports.ts'
import type { Engine } from '../opd/types.ts'
import { AccessLog } from './access-log.ts'
import { TokenLeases } from './admission/allotment.ts'
import { addressCheck } from './admission/callers.ts'
import { type Budget, LoopLag } from './admission/overload.ts'
import type { ProxyConfig, Route } from './config.ts'
import type { ExchangeContext } from './exchange/exchange.ts'
import { openKeptGunzip } from './exchange/kept-gunzip.ts'
import { LongResponses } from './exchange/long-responses.ts'
import { RequestDecoder } from './exchange/request-decoder.ts'
import { ResponseBatch } from './exchange/response-batch.ts'
import { bindMetrics, LargestLag } from './exposition.ts'
import { ConnectionLives } from './listen/connection-life.ts'
import { Listener } from './listen/listener.ts'
import { TicketKeys } from './listen/ticket-keys.ts'
import { heldBytesLimit } from './memory-shares.ts'
import type { SupplierMetrics } from './metrics.ts'
import { type Gauges, loadsOf, type ProcessLoad } from './node-load.ts'
import { PassThrough } from './pass/pass.ts'
import { type RefusedRequest, RefusedRequests } from './refused-requests.ts'
import { Router } from './router.ts'
import type { DirectoryState, Supplier } from './supplier.ts'
import { Suppliers, type UnhealthyEndpoints } from './suppliers.ts'
import type { BidTracer } from './tracer.ts'
import { createResolver } from './upstream/resolver.ts'

export type BidProxy = ReturnType<typeof createProxy>

export type ProxyCounters = BidProxy['counters']

/**
 * The proxy of bid traffic. It serves after `listen`; the end is `drain`, then `close`, or `destroy` at the limit of time.
 *
 * @param config limits of this process; a node with workers has divided them
 * @param routes the suppliers that receive bid traffic at the start
 * @param deps `engine` prices; what is null or absent is left out, as each says
 */
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
    /** Of the node, whose endpoints are preferred. */
    zone?: string | null
    /** Whether this process checks the health of endpoints. */
    checksHealth?: boolean
    /** An endpoint has failed its health checks, or passes them again. */
    onHealth?: () => void
    /** Of TLS sessions of callers; those of another process of this node. */
    tickets?: TicketKeys
    /** Every 10 ms, with the seconds by which the event loop is late. */
    onTick?: (late: number) => void
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
    zone = null,
    checksHealth = true,
    onHealth = () => {},
    tickets = new TicketKeys(null, Date.now()),
    onTick = () => {},
  } = deps
  const closed = new Map<string, number>()
  const onClosed = (reason: string) => closed.set(reason, (closed.get(reason) ?? 0) + 1)
  /** Lines of the access log, by what became of them. */
  const logged = new Map<string, number>()
  const budget: Budget = { inFlight: 0, bytes: 0, kept: 0 }
  const gunzip = openKeptGunzip(log)
  /** Changed by each configuration. */
  const limits = { maxInFlight: 0, maxHeldBytes: 0, maxRequestBytes: 0, maxRewriteBytes: 0 }
  const decoder = new RequestDecoder(budget, () => limits, gunzip)
  const resolver = createResolver({
    onError: (hostname, error) =>
      log.warn(
        { hostname, err: error.message },
        'endpoint name not resolved, last addresses remain in use',
      ),
  })
  const suppliers = new Suppliers({
    engine,
    upstream: {
      resolver,
      lane: config.fastLane ? 'fast' : 'general',
      zone,
      checksHealth,
      onHealth,
    },
    leased: sharedTokens !== null,
    maxInFlight: config.maxInFlightPerSupplier,
    log,
  })
  const largestLag = new LargestLag()
  const lag = new LoopLag((seconds) => {
    largestLag.observe(seconds)
    onTick(seconds)
  })
  const context: ExchangeContext = {
    budget,
    lag,
    decoder,
    gunzip,
    gzip: new GzipEncoder(),
    batch: new ResponseBatch(),
    long: new LongResponses(),
    tracer,
    accessLog: null,
    refused: new RefusedRequests(),
    limits,
    recompress: 'same',
    via: null,
    trusted: () => false,
  }
  const pass = new PassThrough({
    trusted: (remote) => context.trusted(remote),
    via: () => context.via,
    onError: () => onClosed('pass_upstream'),
  })
  const lives = new ConnectionLives()
  const router = new Router({
    suppliers: suppliers.all,
    passOrigins: suppliers.passOrigins,
    context,
    pass,
    onClosed,
    isLast: (response) => lives.isLast(response),
  })
  const listener = new Listener({
    config,
    lives,
    sharesPort,
    tickets,
    onClosed,
    onRequest: (request, response) => router.receive(request, response),
    onHttp2Request: (request) => router.receiveHttp2(request),
    fast: config.fastLane
      ? {
          begin: (...request) => router.beginFast(...request),
          supplierOf: (id) => suppliers.all.get(id) ?? null,
        }
      : null,
    onUpgrade: (request, socket, head) => router.upgrade(request, socket, head),
  })

  const gauges = (): Gauges => ({
    connections: listener.connections,
    http2Connections: listener.http2Connections,
    heldBytes: budget.bytes - budget.kept,
    indexBytes: budget.kept,
    longResponses: context.long.running,
    longWaiting: context.long.waiting,
    maxHeldBytes: limits.maxHeldBytes,
    decoding: decoder.running,
    waiting: decoder.waiting,
  })
  bindMetrics(registry, {
    suppliers: suppliers.all,
    gauges,
    others,
    decoder,
    closed,
    logged,
    largestLag,
  })

  const configure = (next: ProxyConfig) => {
    context.trusted = addressCheck(next.trustedProxies)
    limits.maxHeldBytes = heldBytesLimit(next.maxHeldBytes)
    limits.maxInFlight = next.maxInFlight
    limits.maxRequestBytes = next.maxRequestBytes
    limits.maxRewriteBytes = next.maxRewriteBytes
    context.recompress = next.recompress
    if (next.accessLog === null) {
      void context.accessLog?.close()
      context.accessLog = null
    } else if (context.accessLog === null)
      context.accessLog = new AccessLog(next.accessLog, log, logged)
    else context.accessLog.configure(next.accessLog)
    context.via = next.via ? '1.1 bidweir' : null
    listener.configure(next)
    suppliers.limit(next.maxInFlightPerSupplier)
  }

  configure(config)
  for (const route of routes) suppliers.set(route)
  const leases =
    sharedTokens === null
      ? null
      : new TokenLeases(
          sharedTokens,
          () => suppliers.leasedBuckets(),
          () => suppliers.share,
        )

  return {
    /** `port`: that of the first process, if several share it. */
    listen: (port?: number): Promise<AddressInfo> => listener.listen(port),
    /** Limits, for all suppliers at once. */
    configure,
    /** Adds a supplier, or changes its configuration. */
    setRoute: (route: Route): void => suppliers.set(route),
    /** Removes a supplier; its requests in flight get their responses. */
    removeRoute: (id: string): void => suppliers.remove(id),
    /** The directory or the number of live nodes has changed. `share`: 1 / live nodes. */
    setDirectory: (
      stateOf: (supplier: string) => DirectoryState | undefined,
      share: number,
    ): void => suppliers.setDirectory(stateOf, share),
    /** Endpoints that fail the health checks of this process. */
    unhealthy: (): UnhealthyEndpoints => suppliers.unhealthyEndpoints,
    /** Takes the results of another process. */
    setUnhealthy: (unhealthy: UnhealthyEndpoints): void => suppliers.setUnhealthy(unhealthy),
    drain: () => listener.drain(),
    /** Resolves when all requests in flight have their responses. */
    async close(): Promise<void> {
      pass.closeUpgraded()
      await listener.close()
      leases?.close()
      resolver.close()
      pass.close()
      suppliers.destroy()
      await context.accessLog?.close()
      lag.close()
    },
    destroy(): void {
      listener.destroy()
      suppliers.destroy()
    },
    /** For the node's figures in the console. */
    suppliers: suppliers.all as ReadonlyMap<string, Supplier>,
    /** The last requests of this process without a response of their supplier, in no order. */
    refused: (): RefusedRequest[] => context.refused.all(),
    /** The gauges of this process. */
    load: (): ProcessLoad => ({ ...gauges(), suppliers: loadsOf(suppliers.all.values()) }),
    /** The counters of this process, to which those of others can be added. `closed`: connections, by reason. `logged`: lines of the access log. */
    counters: {
      suppliers: suppliers.metrics as ReadonlyMap<string, SupplierMetrics>,
      metricsOf: (id: string): SupplierMetrics => suppliers.metricsOf(id),
      closed,
      logged,
      decoder: decoder as { bytes: number },
      largestLag,
    },
  }
}
