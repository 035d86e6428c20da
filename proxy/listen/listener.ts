/** The listener of bid traffic: accepts connections for both lanes, limits their number and time, and drains. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as TlsServer } from 'node:https'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { isIdle, pipelined, refuseBytes } from '../../opd/base/pipelining.ts'
import { admitsCertificate } from '../admission/caller-certificate.ts'
import type { ProxyConfig } from '../config.ts'
import { closingResponse } from '../wire/headers.ts'
import { RequestLines } from '../wire/request-lines.ts'
import { watchChunkSizes } from './chunk-sizes.ts'
import type { ConnectionLife, ConnectionLives } from './connection-life.ts'
import { FastConnection, type FastLane } from './fast-connection.ts'
import { Http2Connections, type Http2Request, isPreface } from './http2.ts'
import { hasBody } from './node-http.ts'
import {
  alpnBytes,
  assertFree,
  bind,
  checkInterval,
  createNodeServer,
  maxHead,
  protocolsOf,
  secureContext,
} from './node-server.ts'
import { type TicketKeys, ticketPeriodOf } from './ticket-keys.ts'

interface ListenerOptions {
  config: ProxyConfig
  lives: ConnectionLives
  onRequest(request: IncomingMessage, response: ServerResponse): void
  onHttp2Request(request: Http2Request): void
  onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void
  /** Counts a connection that was closed or refused for a reason. */
  onClosed(reason: string): void
  /** Begins requests of the fast lane; null: all connections are on the general lane. */
  fast: Pick<FastLane, 'begin' | 'supplierOf'> | null
  /** Other processes of this node listen on the same port. */
  sharesPort: boolean
  tickets: TicketKeys
}

const statusLines: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Content Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}

/** Milliseconds by which the timeout of a socket exceeds `keepAlive`, which ends idle connections before. */
const socketMargin = 5000
const backlog = 4096
/** Milliseconds that a drain waits for connections in the accept queue, at most. */
const maxAcceptWait = 500

/** The sockets of bid traffic: limits, lanes, drain. */
export class Listener {
  private readonly server: Server | TlsServer
  private readonly onClosed: (reason: string) => void
  private readonly sharesPort: boolean
  private config: ProxyConfig
  private readonly lives: ConnectionLives
  private readonly open = new Set<Socket>()
  private accepted = 0
  /** Responses that are complete, but not yet read by their callers. */
  private readonly unread = new Set<ServerResponse>()
  /** Connections of the fast lane. One timer checks the time limits of all. */
  private readonly fastConnections = new Set<FastConnection>()
  private readonly limitsTimer: NodeJS.Timeout
  private readonly lane: FastLane | null
  private readonly http2: Http2Connections
  private readonly tickets: TicketKeys
  /** Of the tickets that are written now; null: without TLS. */
  private ticketKey: Buffer | null
  private ticketPeriod = ticketPeriodOf(Date.now())
  /** The listeners of node:http: connections of the general lane. */
  private readonly acceptGeneral: (socket: Socket) => void

  constructor(options: ListenerOptions) {
    this.onClosed = options.onClosed
    this.sharesPort = options.sharesPort
    this.config = options.config
    this.lives = options.lives
    this.tickets = options.tickets
    this.http2 = new Http2Connections({
      config: () => this.config,
      lives: this.lives,
      onRequest: options.onHttp2Request,
      onClosed: options.onClosed,
    })
    this.ticketKey = this.ticketKeyOf(options.config)
    this.server = createNodeServer(options.config, this.ticketKey)
    this.acceptGeneral = this.takeConnections()
    this.applyLimits()
    const { fast } = options
    this.lane = fast === null ? null : this.fastLane(fast)
    this.limitsTimer = setInterval(() => {
      const now = performance.now()
      for (const connection of this.fastConnections) connection.check(now)
      this.renewTicketKey()
    }, checkInterval(options.config.headTimeout)).unref()
    this.acceptConnections()
    this.serveRequests(options)
  }

  private applyLimits(): void {
    const { server, config } = this
    server.headersTimeout = config.headTimeout
    server.requestTimeout = config.headTimeout
    server.keepAliveTimeout = config.keepAlive
    server.maxConnections = config.maxConnections
    server.timeout = config.keepAlive + socketMargin
    // The size of the head is the limit. With a limit of their count, node:http would silently drop header fields.
    server.maxHeadersCount = 0
  }

  private ticketKeyOf({ tls }: ProxyConfig): Buffer | null {
    if (tls === undefined) return null
    return this.tickets.key(Date.now(), tls.ticketKey ?? null, tls.clientCa ?? '')
  }

  private renewTicketKey(): void {
    const period = ticketPeriodOf(Date.now())
    if (period === this.ticketPeriod) return
    this.ticketPeriod = period
    const key = this.ticketKeyOf(this.config)
    if (key === null || this.ticketKey?.equals(key) || !('setTicketKeys' in this.server)) return
    this.ticketKey = key
    this.server.setTicketKeys(key)
  }

  /** From now on the listener decides about each connection; the result is the listener of node:http. */
  private takeConnections(): (socket: Socket) => void {
    const { server } = this
    const event = this.config.tls === undefined ? 'connection' : 'secureConnection'
    const [accept] = server.listeners(event) as ((socket: Socket) => void)[]
    server.removeAllListeners(event)
    return (socket) => accept!.call(server, socket)
  }

  private fastLane({ begin, supplierOf }: Pick<FastLane, 'begin' | 'supplierOf'>): FastLane {
    const { lives, onClosed, acceptGeneral } = this
    return {
      begin,
      supplierOf,
      lives,
      onClosed,
      lines: new RequestLines(supplierOf),
      config: () => this.config,
      handOver: (socket, life, bytes) => {
        if (this.isHttp2(socket, life, bytes)) return
        socket.pause()
        if (bytes.length > 0) socket.unshift(bytes)
        acceptGeneral(socket)
        this.watch(socket)
        socket.resume()
      },
    }
  }

  /** Takes a connection without TLS whose first bytes are, or may become, the preface of HTTP/2. */
  private isHttp2(socket: Socket, life: ConnectionLife, bytes: Buffer): boolean {
    if (!this.config.http2.enabled || this.config.tls !== undefined) return false
    const isHttp2 = isPreface(bytes)
    if (isHttp2 === false) return false
    socket.pause()
    if (isHttp2 === null) this.awaitPreface(socket, life, bytes)
    else {
      socket.unshift(bytes)
      this.http2.accept(socket, life)
    }
    return true
  }

  private awaitPreface(socket: Socket, life: ConnectionLife, bytes: Buffer): void {
    const timer = setTimeout(() => {
      this.onClosed('ERR_HTTP_REQUEST_TIMEOUT')
      socket.destroy()
    }, this.config.headTimeout)
    const leave = () => {
      clearTimeout(timer)
      socket.off('data', onData).off('close', leave)
    }
    const onData = (more: Buffer) => {
      leave()
      const read = Buffer.concat([bytes, more])
      if (this.isHttp2(socket, life, read)) return
      socket.pause()
      socket.unshift(read)
      this.acceptGeneral(socket)
      this.watch(socket)
      socket.resume()
    }
    socket.on('data', onData).on('close', leave).resume()
  }

  private watch(socket: Socket): void {
    watchChunkSizes(socket, () => this.config.maxRequestBytes, maxHead)
  }

  private acceptConnections(): void {
    const { server, open, onClosed, lane, fastConnections } = this
    const removed = (connection: FastConnection) => void fastConnections.delete(connection)
    const isPlain = this.config.tls === undefined
    const begin = (socket: Socket) => {
      const age = this.config.maxConnectionAge * (0.8 + 0.4 * Math.random())
      const life = this.lives.begin(socket, age)
      if ((socket as TLSSocket).alpnProtocol === 'h2') return this.http2.accept(socket, life)
      if (lane === null && isPlain && this.config.http2.enabled)
        this.awaitPreface(socket, life, Buffer.alloc(0))
      else if (lane === null) {
        this.acceptGeneral(socket)
        this.watch(socket)
      } else fastConnections.add(new FastConnection(socket, life, lane, removed))
    }
    server.on('connection', (socket: Socket) => {
      this.accepted++
      open.add(socket)
      socket.once('close', () => open.delete(socket))
      // Until 'secureConnection' there is no other listener: a reset in the handshake would end the process.
      socket.on('error', () => onClosed('reset'))
      if (isPlain) begin(socket)
    })
    // Requests of a TLS connection have this socket, not the one below it.
    server.on('secureConnection', (socket: TLSSocket) => {
      const { tls } = this.config
      const isRequired = tls?.clientAuth === 'required'
      if (tls?.clientCa !== undefined && !admitsCertificate(socket, isRequired)) {
        onClosed('client_certificate')
        return void socket.on('error', () => {}).destroy()
      }
      if (lane !== null)
        socket.on('error', (error: NodeJS.ErrnoException) => {
          onClosed(error.code?.startsWith('ERR_SSL') ? 'tls' : 'reset')
          // After a fault of its records a TLSSocket reports the error, and stays open.
          socket.destroy()
        })
      begin(socket)
    })
    server.on('tlsClientError', (_error, socket) => {
      onClosed('tls')
      // 'clientError' was emitted before, and wrote a response that waits for the handshake.
      socket.destroy()
    })
    server.on('drop', () => onClosed('max_connections'))
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      onClosed(error.code ?? 'unknown')
      if (error.code === 'ECONNRESET') return void socket.destroy()
      refuseBytes(socket, closingResponse(statusLines[error.code ?? ''] ?? '400 Bad Request'))
    })
  }

  private serveRequests({ onRequest, onUpgrade }: ListenerOptions): void {
    const { server, onClosed } = this
    pipelined(server, {
      serve: (request, response) => {
        response.on('error', () => onClosed('reset'))
        response.once('prefinish', () => this.awaitReader(response))
        onRequest(request, response)
      },
      expectationFailed: closingResponse('417 Expectation Failed'),
      noTunnel: closingResponse('405 Method Not Allowed', 'Allow: POST\r\n'),
      onReset: () => onClosed('reset'),
    })
    server.on('upgrade', (request, socket: Socket, head) => {
      socket.on('error', () => onClosed('reset'))
      // Node before 24.9 does not call `shouldUpgradeCallback`.
      if (hasBody(request.headers) || !isIdle(socket)) return void socket.destroy()
      onUpgrade(request, socket, head)
    })
  }

  /** Bounds the time that a complete response, and its connection, wait for a caller that does not read. */
  private awaitReader(response: ServerResponse): void {
    const { socket } = response
    if (socket === null || socket.writableLength === 0) return
    this.unread.add(response)
    const timer = setTimeout(() => {
      this.onClosed('unread')
      socket.destroy()
    }, this.config.headTimeout)
    response.once('close', () => {
      this.unread.delete(response)
      clearTimeout(timer)
    })
  }

  /**
   * Resolves with the address once connections are accepted.
   *
   * @param port that of the first process, if several share it; undefined: that of the configuration
   * @throws if another program listens on the port, or the address is not one of this host
   */
  async listen(port?: number): Promise<AddressInfo> {
    const { sharesPort } = this
    const { listen } = this.config
    const colon = listen.lastIndexOf(':')
    const host = listen.slice(0, colon).replace(/^\[|\]$/g, '')
    const address = { host, port: port ?? Number(listen.slice(colon + 1)) }
    if (sharesPort && port === undefined) await assertFree(address)
    return bind(this.server, { ...address, backlog, reusePort: sharesPort })
  }

  /** @param next its limits and its certificate are taken; the address remains */
  configure(next: ProxyConfig): void {
    const before = this.config.tls
    this.config = next
    this.applyLimits()
    const { tls } = next
    // Read at each connection.
    Object.assign(this.server, { ALPNProtocols: alpnBytes(protocolsOf(next)) })
    const key = this.ticketKeyOf(next)
    if (!('setSecureContext' in this.server) || tls === undefined || key === null) return
    const isSame = before?.cert === tls.cert && before.key === tls.key
    if (isSame && before.clientCa === tls.clientCa && this.ticketKey?.equals(key)) return
    this.ticketKey = key
    this.server.setSecureContext(secureContext(tls, key))
    // Read at each connection.
    Object.assign(this.server, { requestCert: tls.clientCa !== undefined })
  }

  /** From now on each response closes its connection. */
  drain(): void {
    this.lives.draining = true
    this.http2.drain()
  }

  /** Accepts no new connection; resolves when the last one is closed. */
  async close(): Promise<void> {
    this.drain()
    await this.awaitAcceptQueue()
    const closeIdle = () => {
      // node:http regards a connection as idle while its response is still being sent; `awaitReader` bounds that.
      if (this.unread.size === 0) this.server.closeIdleConnections()
      for (const connection of this.fastConnections) if (connection.idle) connection.closeSoon()
    }
    // Not at once: a caller that has just connected, or that takes a connection from its pool, is about to send a request.
    // Repeatedly: a connection may become idle without a response, after a request that was cut short.
    const timer = setInterval(closeIdle, 100)
    await new Promise<void>((resolve) => {
      // node:http's own close() stops its time limits first: an incomplete head would delay the drain.
      NetServer.prototype.close.call(this.server, () => {
        clearInterval(timer)
        this.server.close(() => {})
        clearInterval(this.limitsTimer)
        resolve()
      })
    })
  }

  /**
   * Resolves after the event loop has accepted no connection for a while. Connections in the accept queue, and their
   * requests, are reset when the listener closes. libuv accepts one connection in each iteration.
   */
  private async awaitAcceptQueue(): Promise<void> {
    const end = performance.now() + maxAcceptWait
    for (let before = -1; before !== this.accepted && performance.now() < end; ) {
      before = this.accepted
      // The next connection is accepted in the iteration after this one.
      for (let iteration = 0; iteration < 2; iteration++)
        await new Promise<void>((resolve) => setImmediate(resolve))
    }
  }

  destroy(): void {
    for (const socket of this.open) socket.destroy()
  }

  get http2Connections(): number {
    return this.http2.open
  }

  get connections(): number {
    return this.open.size
  }
}
