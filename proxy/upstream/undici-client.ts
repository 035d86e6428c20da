/** A connection of the general lane to an endpoint, by undici: one Client each. */

import { createRequire } from 'node:module'
import type { LookupFunction, Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type undici from 'undici'
import { Lazy } from '../../opd/base/lazy.ts'
import { type Body, bytesOf, type ResponseSink, type SendFailure } from '../types.ts'
import { header, plainPhrase, unsupportedCoding } from '../wire/headers.ts'
import type { OutgoingRequest } from '../wire/outgoing-heads.ts'
import {
  type Connection,
  idleTimeout,
  type PoolEvents,
  releaseWritten,
  silentConnectMs,
} from './connection.ts'
import { ResponseStart } from './response-start.ts'

/** The parts of undici that carry bid traffic. Its entry point loads all of it, for a tenth of the CPU of a start. */
const load = createRequire(import.meta.url)
const Client: typeof undici.Client = load('undici/lib/dispatcher/client.js')
const buildConnector: typeof undici.buildConnector = load('undici/lib/core/connect.js')

/** Characters that a reason phrase must not contain (RFC 9112 4). */
const control = /[\0-\x08\x0a-\x1f\x7f]/

interface Connector {
  connect: ReturnType<typeof buildConnector>
  /** Called with the address that `connect` connects to. */
  onAddress: (address: string) => void
}

/** Connects all connections to one origin. */
class SharedConnector implements Connector {
  onAddress: Connector['onAddress'] = () => {}
  private readonly lookup: LookupFunction
  private readonly opened: Lazy<{
    connect: ReturnType<typeof buildConnector>
    servername: string
  }>

  constructor(lookup: LookupFunction, tls: () => ConnectionOptions) {
    this.lookup = lookup
    this.opened = new Lazy(() => this.open(tls()))
  }

  readonly connect = ((options, callback) => {
    const { connect, servername } = this.opened.value
    // undici would take the name of the Host header.
    return connect({ ...options, servername }, callback)
  }) satisfies ReturnType<typeof buildConnector>

  private open(options: ConnectionOptions) {
    const connect = buildConnector({
      ...options,
      timeout: 10_000,
      allowH2: false,
      autoSelectFamily: false,
      lookup: ((name, options, callback) => {
        const { onAddress } = this
        this.lookup(name, options, (error, address, family) => {
          onAddress(String(address))
          callback(error, address, family)
        })
      }) satisfies LookupFunction,
    } as undici.buildConnector.BuildOptions)
    return { connect, servername: options.servername ?? '' }
  }
}

/** Opens connections to one origin. `tls`: options of `tls.connect`, asked for at the first connection. */
export function undiciConnector(
  origin: string,
  lookup: LookupFunction,
  tls: () => ConnectionOptions = () => ({}),
) {
  const connector = new SharedConnector(lookup, tls)
  return (events: PoolEvents): Connection => new UndiciClient(origin, connector, events)
}

/** The connection is itself undici's handler of each request, so that a request allocates no handler. */
class UndiciClient implements Connection {
  connectedAt = performance.now()
  /** undici itself closes idle connections. */
  reusableUntil = Number.POSITIVE_INFINITY
  private readonly client: InstanceType<typeof Client>
  private readonly pool: PoolEvents
  private socket: Socket | null = null
  private address = ''
  private sink: ResponseSink | null = null
  private reused = false
  private readBefore = 0
  private destroyed = false
  private readonly start = new ResponseStart()
  private resume: () => void = () => {}

  constructor(origin: string, connector: Connector, pool: PoolEvents) {
    this.pool = pool
    this.client = new Client(origin, {
      connect: (options, callback) => {
        connector.onAddress = (address) => {
          this.address = address
        }
        connector.connect(options, (...result) => {
          const [error, socket] = result
          if (error !== null) pool.connectFailed((error as { address?: string }).address ?? '')
          else this.connected(socket as Socket)
          callback(...result)
        })
      },
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleTimeout,
      keepAliveMaxTimeout: idleTimeout,
      pipelining: 1,
      maxHeaderSize: 65_536,
    })
    this.client.on('disconnect', () => {
      this.socket = null
      if (this.sink === null) this.destroy()
    })
  }

  private connected(socket: Socket): void {
    this.socket = socket
    this.connectedAt = performance.now()
    this.reused = false
    this.readBefore = 0
    const { read } = socket
    socket.read = (size) => {
      for (;;) {
        const chunk: Buffer | null = read.call(socket, size)
        if (chunk === null) return null
        const bytes = this.start.read(chunk)
        if (typeof bytes === 'string') {
          socket.destroy(new Error(bytes))
          return null
        }
        if (bytes !== null) return bytes
      }
    }
  }

  get usable(): boolean {
    return !this.destroyed && this.socket !== null && !this.socket.destroyed
  }

  dispatch(head: OutgoingRequest, body: Body, sink: ResponseSink): void {
    this.sink = sink
    this.start.reset()
    this.reused = this.socket !== null
    this.readBefore = this.socket?.bytesRead ?? 0
    this.client.dispatch(
      {
        path: head.path,
        method: head.method,
        headers: head.fieldsWith(body.length),
        body: bytesOf(body),
      },
      this as undici.Dispatcher.DispatchHandler,
    )
  }

  abort(): void {
    this.sink = null
    if (this.socket === null && performance.now() - this.connectedAt > silentConnectMs)
      this.pool.connectFailed(this.address)
    this.destroy()
  }

  destroy(): void {
    if (this.destroyed) return
    this.destroyed = true
    this.pool.removed(this)
    // The socket is destroyed at once; the promise resolves later.
    this.client.destroy().catch(() => undefined)
  }

  // undici's older handler interface: the newer one wraps it and parses every header.
  onConnect(): void {}

  onHeaders(status: number, raw: Buffer[], resume: () => void, message: string): boolean {
    if (this.sink === null) return true
    const headers = new Array<string>(raw.length)
    for (let index = 0; index < raw.length; index++) headers[index] = raw[index]!.toString('latin1')
    const fault = this.headFault(headers, message)
    if (fault !== null) {
      this.onError(new Error(fault))
      return true
    }
    this.resume = resume
    const length = header(headers, 'content-length')
    this.sink.head(
      { status, message: plainPhrase(message), fields: headers, replies: [] },
      length === undefined ? null : Number(length),
    )
    // Such a response has no body, whatever its Content-Length (RFC 9110 15.3.5, 15.4.5): undici would wait for one.
    if (status === 204 || status === 304) this.finish()
    return true
  }

  private headFault(headers: readonly string[], message: string): string | null {
    if (unsupportedCoding(headers, this.start.version === 'HTTP/1.0') !== undefined)
      return 'an unknown transfer coding'
    return control.test(message) ? 'a control character in the reason phrase' : null
  }

  onData(chunk: Buffer): boolean {
    return this.sink === null ? true : this.sink.data(chunk, this.resume)
  }

  onComplete(): void {
    if (this.socket !== null && this.usable)
      releaseWritten(this, this.socket, this.pool, performance.now())
    else this.destroy()
    this.finish()
  }

  private finish(): void {
    const { sink } = this
    this.sink = null
    sink?.end(performance.now())
  }

  onError(error: Error): void {
    const { sink } = this
    this.sink = null
    const kind = this.failureKind()
    this.destroy()
    sink?.fail({ kind, error })
  }

  private failureKind(): SendFailure['kind'] {
    // undici reports the failure before the disconnect, so the socket's counter of bytes is still available.
    if (this.socket === null) return 'unsent'
    return this.reused && this.socket.bytesRead === this.readBefore ? 'reused' : 'broken'
  }
}
