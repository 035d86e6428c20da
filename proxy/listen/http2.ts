/**
 * HTTP/2 of callers, on the general lane: by ALPN over TLS, or with prior knowledge over plain TCP (RFC 9113 3.3). A stream is
 * one bid request, with the contract of HTTP/1.1. /pass needs HTTP/1.1, and the response says so.
 */
import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { plainAddress } from '../../opd/base/client-address.ts'
import { identityOfCaller } from '../admission/caller-certificate.ts'
import type { ProxyConfig } from '../config.ts'
import type { Body, Inbound, Reply } from '../types.ts'
import { lower } from '../wire/headers.ts'
import type { OutgoingResponse } from '../wire/outgoing-heads.ts'
import { isTls } from '../wire/socket-reads.ts'
import type { ConnectionLife, ConnectionLives } from './connection-life.ts'

const { NGHTTP2_NO_ERROR, NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_HTTP_1_1_REQUIRED } =
  constants

/** What a caller with prior knowledge sends first (RFC 9113 3.4). */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/** Whether the first bytes of a connection are the preface of HTTP/2; null: they may become one. */
export function isPreface(bytes: Buffer): boolean | null {
  const length = Math.min(bytes.length, preface.length)
  if (!bytes.subarray(0, length).equals(preface.subarray(0, length))) return false
  return length === preface.length ? true : null
}

/** Bytes of a header list, and its fields. A stream with more is reset. */
const maxHeaders = 64 * 1024
const maxFields = 256
/** MiB that a connection may hold in Node.js, beside the bodies of `maxHeldBytes`. */
const maxMemory = 4
/**
 * Resets of streams in a burst, and a second: a caller cancels requests at its tmax. The connection of one
 * with more is closed: nghttp2 sends GOAWAY with INTERNAL_ERROR (CVE-2023-44487).
 */
const resetBurst = 1000
const resetRate = 200

export interface Http2Request {
  method: string
  /** Path and query. */
  target: string
  /** The authority, or the Host field; null: neither. */
  host: string | null
  /** Content-Length; 0: there is none. */
  length: number
  inbound: Inbound
  stream: ServerHttp2Stream
}

interface Connection {
  life: ConnectionLife
  remote: string
  secure: boolean
  socket: Duplex
}

interface Http2Options {
  config: () => ProxyConfig
  lives: ConnectionLives
  onRequest(request: Http2Request): void
  /** Counts a connection that was closed for a reason. */
  onClosed(reason: string): void
}

export class Http2Connections {
  private readonly options: Http2Options
  private readonly server: Http2Server
  private readonly connections = new Map<ServerHttp2Session, Connection>()

  constructor(options: Http2Options) {
    this.options = options
    this.server = createServer({
      maxHeaderListPairs: maxFields,
      maxSessionMemory: maxMemory,
      streamResetBurst: resetBurst,
      streamResetRate: resetRate,
      settings: {
        enablePush: false,
        maxConcurrentStreams: options.config().http2.maxStreams,
        maxHeaderListSize: maxHeaders,
      },
    })
    this.server.on('stream', (stream, headers, _flags, rawHeaders) =>
      this.receive(stream as ServerHttp2Stream, headers, rawHeaders as unknown as string[]),
    )
    this.server.on('sessionError', () => options.onClosed('http2'))
  }

  get open(): number {
    return this.connections.size
  }

  accept(socket: Socket, life: ConnectionLife): void {
    const { config, lives } = this.options
    this.server.once('session', (session) => {
      const connection = {
        life,
        remote: plainAddress(socket.remoteAddress ?? ''),
        secure: isTls(socket),
        socket,
      }
      this.connections.set(session, connection)
      session.once('close', () => this.connections.delete(session))
      session.setTimeout(config().keepAlive, () => session.close())
      if (lives.draining) session.close()
    })
    this.server.emit('connection', socket)
  }

  /** Each connection gets GOAWAY: no further request is accepted, and those in flight are answered. */
  drain(): void {
    for (const session of this.connections.keys()) session.close()
  }

  private receive(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ): void {
    const { onClosed, onRequest, lives, config } = this.options
    stream.on('error', () => onClosed('reset'))
    const { session } = stream
    const connection =
      session === undefined ? undefined : this.connections.get(session as ServerHttp2Session)
    if (connection === undefined) return stream.close(NGHTTP2_CANCEL)
    const { life, socket, ...peer } = connection
    if (lives.isOver(life, performance.now())) session!.close()
    const { ':method': method = '', ':path': target = '', ':authority': authority } = headers
    const host = (authority as string | undefined) ?? headers.host ?? null
    const reply = new Http2Reply(stream, config().headTimeout, () => onClosed('unread'))
    onRequest({
      method: method as string,
      target: target as string,
      host,
      length: Number(headers['content-length'] ?? 0),
      stream,
      inbound: {
        head: {
          fields: fieldsOf(rawHeaders, host),
          query: '',
          encoding: undefined,
          contentType: undefined,
          forwarded: null,
        },
        ...{ ...peer, identity: identityOfCaller(socket), protocol: 'HTTP/2' },
        arrived: performance.now(),
        reply,
      },
    })
  }
}

/**
 * The request needs HTTP/1.1, which the caller then uses (RFC 9113 7).
 *
 * @param stream is reset before anything is answered on it
 */
export const requireHttp1 = (stream: ServerHttp2Stream): void =>
  stream.close(NGHTTP2_HTTP_1_1_REQUIRED)

/** Fields as HTTP/1.1 has them: Host in place of the authority, and one Cookie (RFC 9113 8.2.3). */
function fieldsOf(rawHeaders: readonly string[], host: string | null): string[] {
  const fields = host === null ? [] : ['host', host]
  const cookies: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const [name, value] = [rawHeaders[index]!, rawHeaders[index + 1]!]
    if (name === 'cookie') cookies.push(value)
    else if (!name.startsWith(':') && name !== 'host') fields.push(name, value)
  }
  if (cookies.length > 0) fields.push('cookie', cookies.join('; '))
  return fields
}

/** A field that is repeated is a list, unless HTTP permits only one: then its first value is sent. */
function headersOf(head: OutgoingResponse, length: number | null): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = Object.create(null)
  const fields = head.fieldsWith(length)
  for (let index = 0; index < fields.length; index += 2) {
    const name = lower(fields[index]!)
    const before = headers[name]
    if (before === undefined) headers[name] = fields[index + 1]!
    else if (name === 'set-cookie') headers[name] = [before, fields[index + 1]!].flat()
    else if (!single.has(name)) headers[name] = `${String(before)}, ${fields[index + 1]!}`
  }
  return { ...headers, ':status': head.status }
}

const single = new Set([
  ...['age', 'content-encoding', 'content-length', 'content-location', 'content-range'],
  ...['content-type', 'date', 'dnt', 'etag', 'expires', 'from', 'last-modified', 'location'],
  ...['max-forwards', 'range', 'referer', 'retry-after', 'user-agent', 'x-content-type-options'],
])

class Http2Reply implements Reply {
  private readonly stream: ServerHttp2Stream
  private readonly readTimeout: number
  private readonly onUnread: () => void
  private awaitsDrain = false

  constructor(stream: ServerHttp2Stream, readTimeout: number, onUnread: () => void) {
    this.stream = stream
    this.readTimeout = readTimeout
    this.onUnread = onUnread
  }

  get open(): boolean {
    const { stream } = this
    return !stream.destroyed && !stream.closed && !stream.headersSent
  }

  sendWhole(head: OutgoingResponse, length: number | null, body: Body | null): void {
    if (!this.respond(head, length)) return
    if (body === null) this.stream.end()
    else if (typeof body === 'string') this.stream.end(body, 'latin1')
    else this.stream.end(body)
    this.ended()
  }

  start(head: OutgoingResponse, length: number | null): void {
    this.respond(head, length)
  }

  /** False: the fields of the response are not permitted in HTTP/2. */
  private respond(head: OutgoingResponse, length: number | null): boolean {
    try {
      this.stream.respond(headersOf(head, length))
      return true
    } catch {
      this.destroy()
      return false
    }
  }

  write(chunk: Buffer): boolean {
    return this.stream.write(chunk)
  }

  drained(resume: () => void): void {
    if (this.awaitsDrain) return
    this.awaitsDrain = true
    this.stream.once('drain', () => {
      this.awaitsDrain = false
      resume()
    })
  }

  end(): void {
    this.stream.end()
    this.ended()
  }

  /**
   * A stream whose caller neither ends its request nor reads the response in time is closed, because it occupies memory. Not
   * before: nghttp2 drops a response without a body that waits behind its RST_STREAM.
   */
  private ended(): void {
    const { stream } = this
    const isRead = () => stream.writableFinished || stream.writableLength === 0
    if (stream.readableEnded && isRead()) return
    const timer = setTimeout(() => {
      if (isRead()) return stream.close(NGHTTP2_NO_ERROR)
      this.onUnread()
      stream.close(NGHTTP2_CANCEL)
    }, this.readTimeout)
    stream.once('close', () => clearTimeout(timer))
  }

  destroy(): void {
    this.stream.close(NGHTTP2_INTERNAL_ERROR)
  }
}
