/**
 * A gRPC server (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md): calls with one request, which may be compressed by gzip or
 * deflate, and one response or several.
 */
import type { Socket } from 'node:net'
import { constants, gunzip, inflate } from 'node:zlib'
import type { LoopTurn } from '../../opd/base/loop-turn.ts'
import { Http2Connection, type Http2Handler, type Http2Limits } from './connection.ts'
import { encodeHeaders } from './hpack.ts'
import { BodyMemory, type Http2Stream } from './stream.ts'

/** The codes of gRPC that are sent. */
export const grpcStatus = {
  ok: 0,
  invalidArgument: 3,
  notFound: 5,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
} as const

/** Length and compression of a message, before it. */
const prefixLength = 5
/** Bytes of requests that are not answered, and of responses that their callers do not take yet. */
const maxHeld = 256 * 1024 * 1024
/** Messages that are decompressed at once: each may become a message of the largest size, and libuv has four threads. */
const maxDecompressions = 8

const okHead = encodeHeaders({ ':status': '200', 'content-type': 'application/grpc' })
const okTrailers = encodeHeaders({ 'grpc-status': '0' })
const statusFields = (code: number, details: string) => ({
  'grpc-status': String(code),
  'grpc-message': details,
})

/** Milliseconds of the units of grpc-timeout. */
const timeoutUnits: Readonly<Record<string, number>> = {
  ...{ H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 },
}

const decompressors = { gzip: gunzip, deflate: inflate } as const

/** One call, whose request has arrived. */
export class GrpcCall {
  readonly message: Buffer
  private readonly connection: Http2Connection
  private readonly stream: Http2Stream

  constructor(connection: Http2Connection, stream: Http2Stream, message: Buffer) {
    this.connection = connection
    this.stream = stream
    this.message = message
  }

  /** Milliseconds that the caller waits, from the head of its request; Infinity: it names no time. */
  get timeout(): number {
    const found = /^(\d{1,8})([HMSmun])$/.exec(this.stream.head.timeout)
    return found === null ? Number.POSITIVE_INFINITY : Number(found[1]) * timeoutUnits[found[2]!]!
  }

  /** `performance.now()` at the head of the request. */
  get began(): number {
    return this.stream.opened
  }

  /** Whether nobody waits for the answer: the caller left, or it was answered. */
  get hasEnded(): boolean {
    return !this.connection.has(this.stream)
  }

  /**
   * Ends the call with one message. Ignored if the call has ended.
   *
   * @param message Protocol Buffers, without a prefix; it is copied
   */
  reply(message: Buffer): void {
    const framed = withPrefix(message)
    this.connection.respond(this.stream, { head: okHead, message: framed, trailers: okTrailers })
  }

  /**
   * Sends the first of several messages; `write` sends the others, and `fail` ends the call.
   *
   * @param message Protocol Buffers, without a prefix; it is copied
   * @param end called once when the caller leaves, or the connection ends
   */
  begin(message: Buffer, end: () => void): void {
    this.stream.isLasting = true
    this.stream.onCancel = end
    this.connection.respond(this.stream, { head: okHead, message: withPrefix(message) })
  }

  /**
   * Sends another message after `begin`. Ignored if the call has ended.
   *
   * @param message Protocol Buffers, without a prefix; it is copied
   */
  write(message: Buffer): void {
    this.connection.append(this.stream, withPrefix(message))
  }

  /**
   * Ends the call, also after `begin`. Ignored if the call has ended.
   *
   * @param code of `grpcStatus`
   * @param details ASCII of at most 126 bytes, without a per cent sign
   */
  fail(code: number, details: string): void {
    const fields = statusFields(code, details)
    if (this.stream.isAnswered)
      this.connection.append(this.stream, undefined, encodeHeaders(fields))
    else refuse(this.connection, this.stream, code, details)
  }
}

const isGrpc = ({ head }: Http2Stream) => /^application\/grpc(?:$|[+;])/.test(head.contentType)

/** A response without a message. */
function refuse(
  connection: Http2Connection,
  stream: Http2Stream,
  code: number,
  details: string,
): void {
  const fields = {
    ':status': '200',
    'content-type': 'application/grpc',
    ...statusFields(code, details),
    ...(code === grpcStatus.unimplemented && {
      'grpc-accept-encoding': 'identity,gzip,deflate',
    }),
  }
  connection.respond(stream, { head: encodeHeaders(fields) })
}

function withPrefix(message: Buffer): Buffer {
  const framed = Buffer.allocUnsafe(prefixLength + message.length)
  framed[0] = 0
  framed.writeUInt32BE(message.length, 1)
  message.copy(framed, prefixLength)
  return framed
}

export type GrpcMethod = (call: GrpcCall) => void

interface GrpcServerOptions {
  /** By path. */
  methods: Readonly<Record<string, GrpcMethod>>
  /** The status of a request that is not gRPC: a probe. */
  statusOf: (path: string) => number
  /** Bytes of a message. */
  maxMessage: number
  /** Calls at once of one connection. */
  maxStreams: number
  /** Milliseconds. Half a tenth more or less, so that not all connections end at once. */
  maxConnectionAge: number
  /** Shared with what serves the calls. */
  turn: LoopTurn
}

/** A gRPC server on HTTP/2 of its own. */
export class GrpcServer {
  private readonly methods: ReadonlyMap<string, GrpcMethod>
  private readonly options: GrpcServerOptions
  private readonly limits: Http2Limits
  private readonly connections = new Map<Http2Connection, { maxAge: number }>()
  private readonly sweeper
  private isDraining = false
  private decompressions = 0
  /** Calls whose messages are to be decompressed. Their bodies are in their streams. */
  private compressed: (() => void)[] = []

  constructor(options: GrpcServerOptions) {
    this.options = options
    this.methods = new Map(Object.entries(options.methods))
    this.limits = {
      maxStreams: options.maxStreams,
      maxBody: prefixLength + options.maxMessage,
      memory: new BodyMemory(maxHeld),
      turn: options.turn,
    }
    this.sweeper = setInterval(() => {
      const now = performance.now()
      for (const [connection, { maxAge }] of this.connections) connection.sweep(now, maxAge)
    }, 1000).unref()
  }

  /** @param socket of which the first bytes are those of HTTP/2, plain or TLS; the server reads and closes it from now on */
  accept(socket: Socket): void {
    const handler: Http2Handler = {
      onHead: (stream) => this.check(connection, stream),
      onRequest: (stream) => this.call(connection, stream),
      onTooLarge: (stream) =>
        refuse(connection, stream, grpcStatus.resourceExhausted, 'the message is too large'),
      onClosed: () => this.connections.delete(connection),
    }
    const connection: Http2Connection = new Http2Connection(socket, handler, this.limits)
    const maxAge = this.options.maxConnectionAge * (0.95 + 0.1 * Math.random())
    this.connections.set(connection, { maxAge })
    if (this.isDraining) connection.drain()
  }

  /** Sends GOAWAY, so that callers open no further call here. */
  drain(): void {
    this.isDraining = true
    for (const connection of this.connections.keys()) connection.drain()
  }

  close(): void {
    clearInterval(this.sweeper)
    for (const connection of this.connections.keys()) connection.destroy()
  }

  /** A method that does not exist is refused before the body: a caller of several requests waits for it. */
  private check(connection: Http2Connection, stream: Http2Stream): void {
    if (isGrpc(stream) && !this.methods.has(stream.head.path))
      refuse(connection, stream, grpcStatus.unimplemented, 'no such method')
  }

  private call(connection: Http2Connection, stream: Http2Stream): void {
    const { contentType, method, path, encoding } = stream.head
    if (!isGrpc(stream) || method !== 'POST') {
      const status = isGrpc(stream) ? 405 : contentType === '' ? this.options.statusOf(path) : 415
      return connection.respond(stream, { head: encodeHeaders({ ':status': String(status) }) })
    }
    const serve = this.methods.get(path)!
    const flag = stream.firstByte
    const isKnown = Object.hasOwn(decompressors, encoding)
    if (flag === 1 && isKnown) return this.decompressSoon(connection, stream, serve)
    const fail = (code: number, details: string) => refuse(connection, stream, code, details)
    const message = messageOf(stream)
    if (message === null) fail(grpcStatus.internal, 'the call has not one message')
    else if (flag === 0) serve(new GrpcCall(connection, stream, message))
    else if (flag !== 1 || encoding === '' || encoding === 'identity')
      fail(grpcStatus.internal, 'the message has a compression without a name')
    else fail(grpcStatus.unimplemented, 'the compression of the message is not known')
  }

  private decompressSoon(
    connection: Http2Connection,
    stream: Http2Stream,
    serve: GrpcMethod,
  ): void {
    this.compressed.push(() => this.decompress(connection, stream, serve))
    this.startDecompressions()
  }

  private startDecompressions(): void {
    while (this.decompressions < maxDecompressions && this.compressed.length > 0) {
      this.decompressions++
      this.compressed.shift()!()
    }
  }

  private decompress(connection: Http2Connection, stream: Http2Stream, serve: GrpcMethod): void {
    const fail = (code: number, details: string) => refuse(connection, stream, code, details)
    const message = messageOf(stream)
    if (message === null) {
      this.decompressions--
      // Where its caller left while it waited, nobody reads that.
      return fail(grpcStatus.internal, 'the call has not one message')
    }
    const { maxMessage: maxOutputLength, turn } = this.options
    const decompress = decompressors[stream.head.encoding as keyof typeof decompressors]
    decompress(message, { maxOutputLength, finishFlush: constants.Z_FINISH }, (error, bytes) =>
      turn.run(() => {
        const isTooLarge = (error as NodeJS.ErrnoException | null)?.code === 'ERR_BUFFER_TOO_LARGE'
        if (error === null) serve(new GrpcCall(connection, stream, bytes))
        else if (isTooLarge) fail(grpcStatus.resourceExhausted, 'the message is too large')
        else fail(grpcStatus.internal, 'the message cannot be decompressed')
        this.decompressions--
        this.startDecompressions()
      }),
    )
  }
}

/** The one message of a call, as it was sent; null: the body is not one message. */
function messageOf(stream: Http2Stream): Buffer | null {
  const body = stream.bytes
  const isOne = body.length >= prefixLength && body.readUInt32BE(1) === body.length - prefixLength
  return isOne ? body.subarray(prefixLength) : null
}
