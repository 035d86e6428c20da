/**
 * HTTP/2 to an endpoint, on node:http2. undici supports it as well, but after a GOAWAY it sends requests again that the endpoint may
 * have processed, which CONTRACT 3 forbids. A request is a stream; streams share sessions.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  constants,
  type OutgoingHttpHeaders,
} from 'node:http2'
import { connect, type LookupFunction, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { type Body, bytesOf, type ResponseSink, type SendFailure } from '../types.ts'
import { lower } from '../wire/headers.ts'
import type { OutgoingRequest } from '../wire/outgoing-heads.ts'
import type { TlsSessions } from '../wire/tls-sessions.ts'
import { type Connection, type PoolEvents, silentConnectMs } from './connection.ts'

/** Streams of a session at once, at most; a peer may permit fewer. */
const maxStreams = 100
/** Fields of a response; their bytes are limited to `maxHead`. The default of Node.js is 128. */
const maxFields = 2048
const maxHead = 64 * 1024
/** Milliseconds without a stream after which a session is closed. */
const idleTime = 30_000
/** Milliseconds that a session gets new streams, so that new addresses of a name get traffic. */
const maxAge = 300_000

export interface Http2Target {
  origin: string
  host: string
  port: number
  lookup: LookupFunction
  /** null: HTTP/2 without TLS, by prior knowledge. */
  tls: TlsSessions | null
}

/** One connection. `outcome` settles when it is established. */
class Session {
  readonly connectedAt = performance.now()
  session: ClientHttp2Session | null = null
  address = ''
  /** Streams since its start, and those that are open. */
  uses = 0
  streams = 0
  /** The last stream that the endpoint processes, after a GOAWAY. */
  lastStream = Number.POSITIVE_INFINITY
  error: Error | null = null
  private readonly waiting = new Set<Http2Request>()
  private readonly socket: Socket
  private ended = false

  constructor(target: Http2Target, onHttp1: ((waiting: Http2Request[]) => void) | null) {
    const { host, port, lookup, tls, origin } = target
    const options = { host, port, lookup, autoSelectFamily: false, noDelay: true }
    const onConnected = () => {
      const isHttp2 = tls === null || (this.socket as TLSSocket).alpnProtocol === 'h2'
      if (isHttp2) return this.begin(origin)
      this.socket.destroy()
      if (onHttp1 === null) return this.end(new Error('the endpoint does not speak HTTP/2'))
      this.ended = true
      const waiting = [...this.waiting]
      this.waiting.clear()
      onHttp1(waiting)
    }
    this.socket = tls === null ? connect(options, onConnected) : tls.connect(options, onConnected)
    this.socket.on('lookup', (_error, address) => {
      this.address = address
    })
    this.socket.on('error', (error: Error & { address?: string }) => {
      this.address = error.address ?? this.address
      this.socket.destroy()
      this.end(error)
    })
    this.socket.on('close', () => this.end(new Error('the connection closed')))
  }

  private begin(origin: string): void {
    const session = connectHttp2(origin, {
      createConnection: () => this.socket,
      maxHeaderListPairs: maxFields,
      settings: { enablePush: false, maxHeaderListSize: maxHead },
    })
    this.session = session
    session.on('error', (error) => {
      this.error = error
    })
    session.on('goaway', (_code, lastStream) => {
      this.lastStream = lastStream
      this.ended = true
    })
    session.on('close', () => this.end(new Error('the connection closed')))
    session.setTimeout(idleTime, () => {
      if (this.streams === 0) this.close()
    })
    for (const request of this.waiting) request.begin(session)
    this.waiting.clear()
  }

  /** Whether it takes another stream. */
  get free(): boolean {
    if (this.ended || this.connectedAt + maxAge < performance.now()) return false
    const permitted = this.session?.remoteSettings?.maxConcurrentStreams ?? maxStreams
    return this.streams < Math.min(maxStreams, permitted)
  }

  addRequest(request: Http2Request): void {
    if (this.session === null) this.waiting.add(request)
    else request.begin(this.session)
  }

  remove(request: Http2Request): void {
    this.waiting.delete(request)
    this.streams--
  }

  private end(error: Error): void {
    this.ended = true
    this.error ??= error
    for (const request of [...this.waiting]) request.connectFailed(this.error)
    this.waiting.clear()
  }

  /** Open streams are completed. */
  close(): void {
    this.ended = true
    if (this.session !== null) this.session.close()
    else if (this.waiting.size === 0) this.socket.destroy()
  }

  destroy(): void {
    this.ended = true
    this.session?.destroy()
    this.socket.destroy()
  }
}

/** The sessions of one endpoint. */
export class Http2Sessions {
  private sessions: Session[] = []
  private readonly target: Http2Target
  /** Opens connections of HTTP/1.1, if the endpoint may choose. */
  private readonly http1: ((events: PoolEvents) => Connection) | null
  private choseHttp1 = false

  constructor(target: Http2Target, http1: ((events: PoolEvents) => Connection) | null) {
    this.target = target
    this.http1 = http1
  }

  /** @param fresh on a new connection */
  open(events: PoolEvents, fresh: boolean): Connection {
    if (this.choseHttp1 && this.http1 !== null) return this.http1(events)
    this.sessions = this.sessions.filter((session) => session.free || session.streams > 0)
    const session =
      (fresh ? undefined : this.sessions.find((session) => session.free)) ?? this.connect()
    return new Http2Request(session, events)
  }

  private connect(): Session {
    const { http1 } = this
    const session: Session = new Session(
      this.target,
      http1 === null
        ? null
        : (waiting) => {
            this.choseHttp1 = true
            for (const request of waiting) request.delegate(http1)
          },
    )
    this.sessions.push(session)
    return session
  }

  close(): void {
    for (const session of this.sessions) session.close()
  }

  destroy(): void {
    for (const session of this.sessions) session.destroy()
  }
}

/** One request and its stream. It is never reused: the session is. */
class Http2Request implements Connection {
  readonly connectedAt = performance.now()
  readonly reusableUntil = 0
  readonly usable = false
  private readonly session: Session
  private readonly events: PoolEvents
  private readonly reused: boolean
  private stream: ClientHttp2Stream | null = null
  private sink: ResponseSink | null = null
  private head: OutgoingRequest | null = null
  private body: Body = ''
  private responded = false
  private isOpen = true
  private inner: Connection | null = null

  constructor(session: Session, events: PoolEvents) {
    this.session = session
    this.events = events
    this.reused = session.uses > 0 && session.session !== null
    session.uses++
    session.streams++
  }

  dispatch(head: OutgoingRequest, body: Body, sink: ResponseSink): void {
    this.head = head
    this.body = body
    this.sink = sink
    this.session.addRequest(this)
  }

  begin(session: ClientHttp2Session): void {
    const { head, sink } = this
    if (head === null || sink === null) return
    const bytes = bytesOf(this.body)
    let stream: ClientHttp2Stream
    try {
      stream = session.request(fieldsOf(head, bytes.length), { endStream: bytes.length === 0 })
    } catch (error) {
      return this.fail('unsent', error as Error)
    }
    this.stream = stream
    stream.on('response', (headers, _flags, raw: string[]) => {
      this.responded = true
      const status = Number(headers[':status'])
      const fields = raw.filter((_text, index) => !raw[index - (index % 2)]!.startsWith(':'))
      const length = headers['content-length']
      this.sink?.head(
        { status, message: '', fields, replies: [] },
        length === undefined ? null : Number(length),
      )
    })
    stream.on('data', (chunk: Buffer) => {
      if (this.sink?.data(chunk, () => stream.resume()) === false) stream.pause()
    })
    const hasEndStream = watchEndStream(stream)
    stream.on('end', () => {
      if (this.responded && hasEndStream()) this.complete()
    })
    stream.on('error', (error) => this.streamFailed(error))
    stream.on('close', () =>
      this.streamFailed(new Error(`the stream was closed (${stream.rstCode})`)),
    )
    if (bytes.length > 0) stream.end(bytes)
  }

  private complete(): void {
    const { sink } = this
    this.end()
    sink?.end(performance.now())
  }

  private streamFailed(error: Error): void {
    if (this.sink === null) return this.end()
    const { stream, session } = this
    const refused =
      stream?.rstCode === constants.NGHTTP2_REFUSED_STREAM ||
      (stream?.id ?? 0) > session.lastStream ||
      stream?.id === undefined
    const isLost = session.session?.destroyed === true || session.session?.closed === true
    const kind = this.responded
      ? 'broken'
      : refused
        ? 'unsent'
        : isLost && this.reused
          ? 'reused'
          : 'broken'
    this.fail(kind, session.error ?? error)
  }

  connectFailed(error: Error): void {
    this.events.connectFailed(this.session.address)
    this.fail('unsent', error)
  }

  private fail(kind: SendFailure['kind'], error: Error): void {
    const { sink } = this
    this.end()
    sink?.fail({ kind, error })
  }

  /** The endpoint has chosen HTTP/1.1. */
  delegate(http1: (events: PoolEvents) => Connection): void {
    const { head, sink, body } = this
    this.session.remove(this)
    this.isOpen = false
    this.events.removed(this)
    if (head === null || sink === null) return
    this.inner = http1(this.events)
    this.events.added(this.inner)
    this.inner.dispatch(head, body, sink)
  }

  private end(): void {
    this.sink = null
    if (!this.isOpen) return
    this.isOpen = false
    this.session.remove(this)
    this.events.removed(this)
  }

  abort(): void {
    if (this.inner !== null) return this.inner.abort()
    if (this.session.session === null && performance.now() - this.connectedAt > silentConnectMs)
      this.events.connectFailed(this.session.address)
    this.destroy()
  }

  destroy(): void {
    if (this.inner !== null) return this.inner.destroy()
    this.end()
    this.stream?.close(constants.NGHTTP2_CANCEL)
  }
}

/**
 * Returns whether the peer has ended the stream with END_STREAM. Node.js emits `end` also for a stream that is reset with
 * NO_ERROR, or whose connection ends after a GOAWAY: then the stream is closed before its last chunk is pushed.
 */
function watchEndStream(stream: ClientHttp2Stream): () => boolean {
  const push = stream.push.bind(stream)
  let hasEnded = false
  stream.push = (chunk, encoding) => {
    if (chunk === null && !stream.closed) hasEnded = true
    return push(chunk, encoding)
  }
  return () => hasEnded
}

function fieldsOf({ path, method, fields }: OutgoingRequest, length: number): OutgoingHttpHeaders {
  const out: OutgoingHttpHeaders = { ':method': method, ':path': path }
  for (let index = 0; index < fields.length; index += 2) {
    const name = lower(fields[index]!)
    const value = fields[index + 1]!
    if (name === 'host') {
      out[':authority'] = value
      continue
    }
    const before = out[name]
    out[name] =
      before === undefined ? value : [...(Array.isArray(before) ? before : [`${before}`]), value]
  }
  if (length > 0) out['content-length'] = length
  return out
}
