/** The listener of bid traffic: what Node leaves open is closed here, and connections end when they are old. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { connectionOf, isIdle, pipelined, refuseBytes } from '../../opd/shared/pipelining.ts'
import type { ProxyConfig } from '../config.ts'
import { lastAnswer } from '../wire/fields.ts'
import { quiet } from './accept-queue.ts'
import { hasBody, pathOf } from './node-http-head.ts'
import { type Connection, isLast } from './pipelining.ts'
import type { FastGate } from './strict-connection.ts'
import { createFastLane } from './strict-connections.ts'

export interface ListenerOptions {
  config: ProxyConfig
  onRequest(request: IncomingMessage, response: ServerResponse): void
  onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void
  /** Counts a connection that was closed or refused for a reason. */
  onClosed(reason: string): void
  /** What the fast lane does with a request; null: every connection is node:http's. */
  begin: FastGate['begin'] | null
  random?: () => number
}

export interface Listener {
  server: Server | TlsServer
  listen(): Promise<AddressInfo>
  /** Limits of a new configuration; the address stays. */
  configure(config: ProxyConfig): void
  /** Whether this answer, given now, ends its connection. */
  ends(response: ServerResponse): boolean
  /** Each answer from now on closes its connection. */
  drain(): void
  /** No new connection; resolves when the last one is gone. */
  close(): Promise<void>
  destroy(): void
  readonly connections: number
}

const statusLines: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Content Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}

export function createListener(options: ListenerOptions): Listener {
  const { onClosed, random = Math.random } = options
  let { config } = options
  let draining = false
  const open = new Set<Socket>()
  const settings = {
    insecureHTTPParser: false,
    // headFault looks at it, and says so in a problem document.
    requireHostHeader: false,
    maxHeaderSize: 64 * 1024,
    connectionsCheckingInterval: Math.max(50, Math.min(1000, config.headTimeout / 5)),
    noDelay: true,
    // Any other offer to upgrade is ignored (RFC 9110 7.8): Java's client makes one with its first POST.
    shouldUpgradeCallback: ({ method, headers, socket, url = '' }: IncomingMessage) =>
      method === 'GET' &&
      headers.upgrade?.toLowerCase() === 'websocket' &&
      !hasBody(headers) &&
      isIdle(socket) &&
      pathOf(url).startsWith('/pass/'),
  }
  const { tls } = config
  const server: Server | TlsServer =
    tls === undefined
      ? createServer(settings)
      : createTlsServer({
          ...settings,
          cert: tls.cert,
          key: tls.key,
          minVersion: 'TLSv1.2',
          handshakeTimeout: config.headTimeout,
        })

  const limit = () => {
    server.headersTimeout = config.headTimeout
    server.requestTimeout = config.headTimeout
    server.keepAliveTimeout = config.keepAlive
    server.maxConnections = config.maxConnections
    server.timeout = config.keepAlive + 5000
    server.maxRequestsPerSocket = 0
    // 64 KiB of head are the bound; fields past a count would be dropped without a word.
    server.maxHeadersCount = 0
  }
  limit()

  const closes = (socket: Connection) =>
    draining || performance.now() >= (socket.bidweirRetire ?? Number.POSITIVE_INFINITY)
  const ends = (response: ServerResponse) => isLast(response, closes(connectionOf(response)))

  const age = (socket: Connection) => {
    socket.bidweirRetire = performance.now() + config.maxConnectionAge * (0.8 + 0.4 * random())
  }

  // Plain connections begin on the fast lane; TLS ones are node:http's.
  const [general] = server.listeners('connection') as ((socket: Socket) => void)[]
  const fast =
    options.begin === null || tls !== undefined
      ? null
      : createFastLane({
          begin: options.begin,
          handOver(socket, bytes) {
            socket.pause()
            if (bytes.length > 0) socket.unshift(bytes)
            general!.call(server, socket)
            socket.resume()
          },
          closes,
          onClosed,
          get headTimeout() {
            return config.headTimeout
          },
          get keepAlive() {
            return config.keepAlive
          },
        })
  if (fast !== null) server.removeAllListeners('connection')

  let accepted = 0
  server.on('connection', (socket: Connection) => {
    accepted++
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    // Before 'secureConnection' nothing else listens: a reset in the handshake must not reach the top.
    socket.on('error', () => onClosed('reset'))
    age(socket)
    fast?.accept(socket)
  })
  // Requests of a TLS connection name this socket, not the one that it runs over.
  server.on('secureConnection', age)
  server.on('tlsClientError', (_error, socket) => {
    onClosed('tls')
    // 'clientError' came first and wrote an answer that waits for a handshake.
    socket.destroy()
  })
  server.on('drop', () => onClosed('max_connections'))
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    onClosed(error.code ?? 'unknown')
    if (error.code === 'ECONNRESET') return void socket.destroy()
    refuseBytes(socket, lastAnswer(statusLines[error.code ?? ''] ?? '400 Bad Request'))
  })
  /** Answers that are whole, and on their way. */
  const leaving = new Set<ServerResponse>()
  /** An answer that its caller does not take would hold it, and its connection. */
  const taken = (response: ServerResponse) => {
    const { socket } = response
    if (socket === null || socket.writableLength === 0) return
    leaving.add(response)
    const unread = setTimeout(() => {
      onClosed('unread')
      socket.destroy()
    }, config.headTimeout)
    response.once('close', () => {
      leaving.delete(response)
      clearTimeout(unread)
    })
  }

  pipelined(server, {
    serve(request, response) {
      response.on('error', () => onClosed('reset'))
      response.once('prefinish', () => taken(response))
      options.onRequest(request, response)
    },
    expectationFailed: lastAnswer('417 Expectation Failed'),
    noTunnel: lastAnswer('405 Method Not Allowed', 'Allow: POST\r\n'),
    onReset: () => onClosed('reset'),
  })
  server.on('upgrade', (request, socket: Socket, head) => {
    socket.on('error', () => onClosed('reset'))
    // Node before 24.9 does not ask `shouldUpgradeCallback`.
    if (hasBody(request.headers) || !isIdle(socket)) return void socket.destroy()
    options.onUpgrade(request, socket, head)
  })

  return {
    server,
    ends,
    listen() {
      const at = config.listen.lastIndexOf(':')
      const host = config.listen.slice(0, at).replace(/^\[|\]$/g, '')
      const port = Number(config.listen.slice(at + 1))
      return new Promise((resolve, reject) => {
        server.once('error', reject)
        server.listen({ host, port, backlog: 4096 }, () => {
          server.off('error', reject)
          resolve(server.address() as AddressInfo)
        })
      })
    },
    configure(next) {
      const before = config.tls
      config = next
      limit()
      const other = next.tls?.cert !== before?.cert || next.tls?.key !== before?.key
      if (tls !== undefined && next.tls !== undefined && other)
        (server as TlsServer).setSecureContext({
          cert: next.tls.cert,
          key: next.tls.key,
          minVersion: 'TLSv1.2',
        })
    },
    drain() {
      draining = true
    },
    async close() {
      draining = true
      await quiet(() => accepted)
      // A connection that becomes idle without an answer of its own (a cut request) is seen at the next look.
      const closeIdle = () => {
        // To node:http a connection is idle whose answer is still on its way: `taken` bounds that.
        if (leaving.size === 0) server.closeIdleConnections()
        fast?.closeIdle()
      }
      const idle = setInterval(closeIdle, 100)
      await new Promise<void>((resolve) => {
        // node:http's own close() stops its time limits first: half a head would hold a drain to its end.
        NetServer.prototype.close.call(server, () => {
          clearInterval(idle)
          server.close(() => {})
          fast?.close()
          resolve()
        })
        closeIdle()
      })
    },
    destroy() {
      for (const socket of open) socket.destroy()
    },
    get connections() {
      return open.size
    },
  }
}
