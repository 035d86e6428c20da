/**
 * Connections to one endpoint, idle ones last in, first out, so that the surplus of a peak ages and closes. We hold
 * them ourselves, not a Pool, because replay has to know whether a request met a fresh connection or a reused
 * one, and whether a byte of answer came (RFC 9112 9.3.1).
 */
import type { LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import type { AnswerSink, Sent } from '../listen/types.ts'
import type { Owner } from './pool-events.ts'
import type { Resolver } from './resolver.ts'
import { WireConnection } from './strict-client.ts'
import { type Connector, GeneralConnection } from './undici-client.ts'

/** Upstream connections live 5 minutes at most, so that new nodes behind a name get traffic. */
const maxAge = 300_000
/** How often idle connections past their time are closed. */
const sweepEvery = 1000

export interface Connection extends Sent {
  /** `performance.now()` at which it was connected. */
  readonly born: number
  /** `performance.now()` until which it may be used again while idle. */
  readonly spareUntil: number
  readonly usable: boolean
  dispatch(path: string, headers: string[], body: Buffer, sink: AnswerSink): void
  destroy(): void
}

export interface Connections {
  /** An idle connection, the one used last; `fresh` or none idle: a new one. */
  take(fresh: boolean): Connection
  readonly idle: number
  readonly open: number
  /** Closes what is idle; what is busy closes when its answer is whole. */
  close(): void
  destroy(): void
}

export interface Upstream {
  resolver: Resolver
  /** `general`: undici for plain HTTP, too. */
  lane: 'fast' | 'general'
}

/** Makes connections to one origin: the strict wire for plain HTTP, undici for the rest. */
function connecting(origin: string, { resolver, lane }: Upstream) {
  const { protocol, hostname, port } = new URL(origin)
  const { lookup } = resolver
  if (protocol === 'http:' && lane === 'fast') {
    const host = hostname.replace(/^\[|\]$/g, '')
    const target = { host, port: Number(port === '' ? 80 : port), lookup }
    return (owner: Owner<Connection>): Connection => new WireConnection(target, owner)
  }
  const connect = buildConnector({
    timeout: 10_000,
    allowH2: false,
    autoSelectFamily: false,
    lookup: ((name, options, callback) => {
      const { looked } = connector
      lookup(name, options, (error, address, family) => {
        looked(String(address))
        callback(error, address, family)
      })
    }) satisfies LookupFunction,
  } as buildConnector.BuildOptions)
  const connector: Connector = { connect, looked() {} }
  return (owner: Owner<Connection>): Connection => new GeneralConnection(origin, connector, owner)
}

export function createConnections(origin: string, upstream: Upstream): Connections {
  const { hostname } = new URL(origin)
  const connect = connecting(origin, upstream)
  const idle: Connection[] = []
  const all = new Set<Connection>()
  let closed = false
  const stale = (connection: Connection, now: number) =>
    connection.spareUntil < now || connection.born + maxAge < now

  const owner: Owner<Connection> = {
    release(connection) {
      if (closed || stale(connection, performance.now())) connection.destroy()
      else idle.push(connection)
    },
    forget(connection) {
      all.delete(connection)
      const at = idle.lastIndexOf(connection)
      if (at >= 0) idle.splice(at, 1)
    },
    failed: (address) => upstream.resolver.failed(hostname, address),
  }

  const open = (): Connection => {
    const connection = connect(owner)
    all.add(connection)
    return connection
  }
  const take = (fresh: boolean): Connection => {
    if (fresh) return open()
    const now = performance.now()
    for (let connection = idle.pop(); connection !== undefined; connection = idle.pop()) {
      if (connection.usable && !stale(connection, now)) return connection
      connection.destroy()
    }
    return open()
  }
  const sweep = setInterval(() => {
    const now = performance.now()
    for (const connection of idle.filter((each) => stale(each, now))) connection.destroy()
  }, sweepEvery)
  sweep.unref()
  upstream.resolver.watch([hostname])
  const end = () => {
    if (!closed) upstream.resolver.unwatch([hostname])
    closed = true
    clearInterval(sweep)
  }

  return {
    take,
    get idle() {
      return idle.length
    },
    get open() {
      return all.size
    },
    close() {
      end()
      for (const connection of idle.splice(0)) connection.destroy()
    },
    destroy() {
      end()
      for (const connection of [...all]) connection.destroy()
    },
  }
}
