/**
 * Connections to one endpoint. The last one used is reused first, so that the surplus of a peak becomes idle and closes.
 * undici's Pool is not used: a replay depends on whether a request was sent on a reused connection, and whether a byte
 * of its response arrived (RFC 9112 9.3.1).
 */
import { HeadTemplates, SharedTemplates } from '../wire/head-templates.ts'
import type { UpstreamResponseHead } from '../wire/response-head.ts'
import { systemTls, type TlsIdentity } from '../wire/tls-identity.ts'
import { TlsSessions } from '../wire/tls-sessions.ts'
import type { Protocol } from './config.ts'
import { type Connection, idleTimeout, type PoolEvents } from './connection.ts'
import { FastClient } from './fast-client.ts'
import { Http2Sessions } from './http2-client.ts'
import type { Resolver } from './resolver.ts'
import { undiciConnector } from './undici-client.ts'

/** Upstream connections are used for 5 minutes at most, so that new addresses of a name get traffic. */
const maxAge = 300_000
/** Milliseconds between two checks for idle connections that are no longer reusable. With thousands of endpoints they add up. */
const sweepInterval = idleTimeout
/** Heads of responses that are kept for an endpoint: it has one for bids, and one for no-bids. */
const headsOfEndpoint = 4
/** Of all endpoints of the process. */
const headsOfAll = new SharedTemplates<UpstreamResponseHead>()

export interface Upstream {
  resolver: Resolver
  lane: 'fast' | 'general'
  tls?: TlsIdentity
  protocol?: Protocol
}

/** Opens connections to one origin. */
interface Connector {
  open(events: PoolEvents, fresh: boolean): Connection
  /** Nothing is opened any more; requests in flight get their responses. */
  close(): void
  destroy(): void
}

/** With a FastClient, with undici on the general lane, or with streams of HTTP/2 sessions. */
function connectorOf(origin: string, upstream: Upstream): Connector {
  const { resolver, tls = systemTls, protocol = 'http/1.1' } = upstream
  const url = new URL(origin)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const secure = url.protocol === 'https:'
  const port = Number(url.port === '' ? (secure ? 443 : 80) : url.port)
  const http1 = http1ConnectorOf(origin, host, port, upstream)
  if (protocol === 'http/1.1' || (protocol === 'auto' && !secure))
    return { open: http1, close() {}, destroy() {} }
  const offered = protocol === 'h2' ? ['h2'] : ['h2', 'http/1.1']
  return new Http2Sessions(
    {
      ...{ origin, host, port, lookup: resolver.lookup },
      tls: secure ? new TlsSessions(host, tls, offered) : null,
    },
    protocol === 'auto' ? http1 : null,
  )
}

function http1ConnectorOf(
  origin: string,
  host: string,
  port: number,
  { resolver, lane, tls = systemTls }: Upstream,
) {
  const { lookup } = resolver
  const secure = origin.startsWith('https:')
  if (lane === 'general')
    return undiciConnector(origin, lookup, () => (secure ? tls.optionsFor(host) : {}))
  const target = { host, port, lookup, tls: secure ? new TlsSessions(host, tls) : null }
  const templates = new HeadTemplates(headsOfEndpoint, headsOfAll)
  return (events: PoolEvents): Connection => new FastClient(target, events, templates)
}

/** The connections to one origin. */
export class ConnectionPool implements PoolEvents {
  // What each request reads comes first, and lies together in memory.
  /** The idle connection that was used last; null: there is none. Most endpoints of thousands have no other. */
  private newest: Connection | null = null
  private closed = false
  /** Connections to an endpoint that is not trusted any more: they complete their requests. null: there were none. */
  private distrusted: Set<Connection> | null = null
  /** Runs while connections are idle: timers of thousands of endpoints would be due in the same turn of the event loop. */
  private timer: NodeJS.Timeout | null = null
  /** Idle ones besides `newest`. */
  private readonly older: Connection[] = []
  private readonly all = new Set<Connection>()
  private readonly origin: string
  private readonly hostname: string
  private readonly upstream: Upstream
  private connector: ReturnType<typeof connectorOf>

  constructor(origin: string, upstream: Upstream) {
    this.origin = origin
    this.hostname = new URL(origin).hostname
    this.upstream = upstream
    this.connector = connectorOf(origin, upstream)
    upstream.resolver.watch(this.hostname)
  }

  /**
   * The idle connection that was used last, or a new one, which need not be established yet. It is for one request.
   *
   * @param fresh a new one in any case, as a replay wants it
   * @param now `performance.now()`
   */
  acquire(fresh: boolean, now: number): Connection {
    if (fresh) return this.connect(true)
    for (let connection = this.takeIdle(); connection !== null; connection = this.takeIdle()) {
      if (connection.usable && !this.isStale(connection, now)) return connection
      connection.destroy()
    }
    return this.connect(false)
  }

  private takeIdle(): Connection | null {
    const { newest } = this
    this.newest = null
    return newest ?? this.older.pop() ?? null
  }

  private get idleOnes(): Connection[] {
    return this.newest === null ? [...this.older] : [...this.older, this.newest]
  }

  get idle(): number {
    return this.older.length + (this.newest === null ? 0 : 1)
  }

  get open(): number {
    return this.all.size
  }

  /**
   * @param tls the identity of later connections
   * @param trusted the present connections may be used further; false: they complete their requests and close
   */
  setTls(tls: TlsIdentity, trusted: boolean): void {
    this.connector.close()
    this.connector = connectorOf(this.origin, { ...this.upstream, tls })
    if (trusted) return
    for (const connection of this.idleOnes) connection.destroy()
    this.distrusted = new Set([...(this.distrusted ?? []), ...this.all])
  }

  /** Closes idle connections now, and the others when their responses are complete. */
  close(): void {
    this.stop()
    this.connector.close()
    for (const connection of this.idleOnes) connection.destroy()
  }

  destroy(): void {
    this.stop()
    for (const connection of [...this.all]) connection.destroy()
    this.connector.destroy()
  }

  released(connection: Connection, now: number): void {
    if (this.closed || this.isStale(connection, now)) return connection.destroy()
    if (this.newest !== null) this.older.push(this.newest)
    this.newest = connection
    this.timer ??= setInterval(() => this.sweep(), sweepInterval).unref()
  }

  added(connection: Connection): void {
    this.all.add(connection)
  }

  removed(connection: Connection): void {
    this.all.delete(connection)
    this.distrusted?.delete(connection)
    if (this.newest === connection) this.newest = null
    const index = this.older.lastIndexOf(connection)
    if (index >= 0) this.older.splice(index, 1)
  }

  connectFailed(address: string): void {
    this.upstream.resolver.failed(this.hostname, address)
  }

  private isStale(connection: Connection, now: number): boolean {
    return (
      connection.reusableUntil < now ||
      connection.connectedAt + maxAge < now ||
      (this.distrusted?.has(connection) ?? false)
    )
  }

  private connect(fresh: boolean): Connection {
    const connection = this.connector.open(this, fresh)
    this.all.add(connection)
    return connection
  }

  private sweep(): void {
    const now = performance.now()
    for (const connection of this.idleOnes.filter((idleOne) => this.isStale(idleOne, now)))
      connection.destroy()
    if (this.idle === 0) this.endSweep()
  }

  private endSweep(): void {
    if (this.timer !== null) clearInterval(this.timer)
    this.timer = null
  }

  private stop(): void {
    if (!this.closed) this.upstream.resolver.unwatch(this.hostname)
    this.closed = true
    this.endSweep()
  }
}
