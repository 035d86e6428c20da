/**
 * Connections to one endpoint. The last one used is reused first, so that the surplus of a peak becomes idle and closes.
 * undici's Pool is not used: a replay depends on whether a request was sent on a reused connection, and whether a byte
 * of its response arrived (RFC 9112 9.3.1).
 */
import { HeadTemplates } from '../wire/head-templates.ts'
import type { UpstreamResponseHead } from '../wire/response-head.ts'
import { systemTls, type TlsIdentity } from '../wire/tls-identity.ts'
import { TlsSessions } from '../wire/tls-sessions.ts'
import type { Protocol } from './config.ts'
import type { Connection, PoolEvents } from './connection.ts'
import { FastClient } from './fast-client.ts'
import { Http2Sessions } from './http2-client.ts'
import type { Resolver } from './resolver.ts'
import { undiciConnector } from './undici-client.ts'

/** Upstream connections are used for 5 minutes at most, so that new addresses of a name get traffic. */
const maxAge = 300_000
/** Milliseconds between two checks for idle connections that are no longer reusable. */
const sweepInterval = 1000
/** Heads of responses that are kept for an endpoint: it has one for bids, and one for no-bids. */
const headsOfEndpoint = 4

export type ConnectionPool = ReturnType<typeof createPool>

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
  const templates = new HeadTemplates<UpstreamResponseHead>(headsOfEndpoint)
  return (events: PoolEvents): Connection => new FastClient(target, events, templates)
}

export function createPool(origin: string, upstream: Upstream) {
  const { hostname } = new URL(origin)
  let connector = connectorOf(origin, upstream)
  const idle: Connection[] = []
  const all = new Set<Connection>()
  /** Connections to an endpoint that is not trusted any more: they complete their requests. */
  const distrusted = new Set<Connection>()
  let closed = false
  /** Runs while connections are idle: timers of thousands of endpoints would be due in the same turn of the event loop. */
  let timer: NodeJS.Timeout | null = null
  const stale = (connection: Connection, now: number) =>
    connection.reusableUntil < now ||
    connection.connectedAt + maxAge < now ||
    distrusted.has(connection)

  const events: PoolEvents = {
    released(connection, now) {
      if (closed || stale(connection, now)) return connection.destroy()
      idle.push(connection)
      timer ??= setInterval(sweep, sweepInterval).unref()
    },
    added(connection) {
      all.add(connection)
    },
    removed(connection) {
      all.delete(connection)
      distrusted.delete(connection)
      const at = idle.lastIndexOf(connection)
      if (at >= 0) idle.splice(at, 1)
    },
    connectFailed: (address) => upstream.resolver.failed(hostname, address),
  }

  const open = (fresh = false): Connection => {
    const connection = connector.open(events, fresh)
    all.add(connection)
    return connection
  }
  /** The idle connection that was used last; with `fresh`, or if none is idle, a new one. */
  const acquire = (fresh: boolean, now: number): Connection => {
    if (fresh) return open(true)
    for (let connection = idle.pop(); connection !== undefined; connection = idle.pop()) {
      if (connection.usable && !stale(connection, now)) return connection
      connection.destroy()
    }
    return open()
  }
  const endSweep = () => {
    if (timer !== null) clearInterval(timer)
    timer = null
  }
  const sweep = () => {
    const now = performance.now()
    for (const connection of idle.filter((each) => stale(each, now))) connection.destroy()
    if (idle.length === 0) endSweep()
  }
  upstream.resolver.watch(hostname)
  const stop = () => {
    if (!closed) upstream.resolver.unwatch(hostname)
    closed = true
    endSweep()
  }

  return {
    acquire,
    get idle(): number {
      return idle.length
    },
    get open(): number {
      return all.size
    },
    /** Later connections use this identity. `trusted`: the present ones may be used further. */
    setTls(tls: TlsIdentity, trusted: boolean): void {
      connector.close()
      connector = connectorOf(origin, { ...upstream, tls })
      if (trusted) return
      for (const connection of idle.splice(0)) connection.destroy()
      for (const connection of all) distrusted.add(connection)
    },
    /** Closes idle connections now, and the others when their responses are complete. */
    close(): void {
      stop()
      connector.close()
      for (const connection of idle.splice(0)) connection.destroy()
    },
    destroy(): void {
      stop()
      for (const connection of [...all]) connection.destroy()
      connector.destroy()
    },
  }
}
