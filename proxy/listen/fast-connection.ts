/**
 * A caller's connection on the fast lane: a socket, plain or TLS, that serves one bid request after another. A connection whose next
 * request is not certainly a well-formed bid request is passed, with the bytes of that request, to the general lane, and
 * stays there.
 *
 *   head ──▶ body ──▶ responding ──▶ head …         responded before the body was complete: the rest is discarded
 */
import type { Socket } from 'node:net'
import { plainAddress } from '../../opd/base/client-address.ts'
import { refuseBytes } from '../../opd/base/pipelining.ts'
import { type CallerIdentity, identityOfCaller } from '../admission/caller-certificate.ts'
import type { ProxyConfig } from '../config.ts'
import type { Exchange } from '../exchange/exchange.ts'
import { problem } from '../problem.ts'
import type { Supplier } from '../supplier.ts'
import type { Body, Inbound, Reply } from '../types.ts'
import { type BodySink, ChunkedReader } from '../wire/chunked.ts'
import { HeadTemplates } from '../wire/head-templates.ts'
import { closingResponse } from '../wire/headers.ts'
import { type OutgoingResponse, singleWrite, writeMessage } from '../wire/outgoing-heads.ts'
import {
  chunked,
  type RequestHead,
  readRequestHead,
  readRequestLine,
  setQueryAndLength,
} from '../wire/request-head.ts'
import { longestLine, notKept, type RequestLines } from '../wire/request-lines.ts'
import { isTls, SocketReads } from '../wire/socket-reads.ts'
import type { ConnectionLife, ConnectionLives } from './connection-life.ts'

/** The value of `Date` (RFC 9110 6.6.1), formatted once a second. */
let date = ''
let dateValidUntil = 0
function dateNow(): string {
  const now = Date.now()
  if (now >= dateValidUntil) {
    date = new Date(now).toUTCString()
    dateValidUntil = now - (now % 1000) + 1000
  }
  return date
}

/** The ends of a head: up to the value of a Content-Length, before a body in chunks, and without either. */
interface Endings {
  length: string
  chunked: string
  none: string
}

const endings = (fields: string): Endings => ({
  length: `${fields}Content-Length: `,
  chunked: `${fields}Transfer-Encoding: chunked\r\n\r\n`,
  none: `${fields}\r\n`,
})

const closing = endings('Connection: close\r\n')

/** After these heads the connection is kept for another request. */
let keeping = closing
let keepingFor = -1
function keepingAlive(keepAlive: number): Endings {
  if (keepAlive !== keepingFor) {
    keepingFor = keepAlive
    const seconds = Math.floor(keepAlive / 1000)
    keeping = endings(`Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}\r\n`)
  }
  return keeping
}

const headWith = (head: OutgoingResponse, ending: string): string =>
  head.dated ? head.textWith(ending) : `${head.text}Date: ${dateNow()}\r\n${ending}`

/** Whether a response with this head needs the chunked coding. */
const needsChunks = ({ status }: OutgoingResponse, length: number | null): boolean =>
  length === null && status !== 204 && status !== 304

/** `length` null: there is no Content-Length. */
function headOf(head: OutgoingResponse, length: number | null, ends: Endings): string {
  if (length !== null) return `${headWith(head, ends.length)}${length}\r\n\r\n`
  return headWith(head, needsChunks(head, length) ? ends.chunked : ends.none)
}

/** False: the caller reads more slowly than the response arrives. */
function writeChunk(socket: Socket, chunk: Buffer): boolean {
  socket.cork()
  socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
  socket.write(chunk)
  const flowing = socket.write('\r\n', 'latin1')
  socket.uncork()
  return flowing
}

interface ReplyLane {
  readonly lives: ConnectionLives
  /** The current configuration. */
  config(): ProxyConfig
}

/** The response to a request of the fast lane: its head, and its body, whole, as a stream, or in chunks. */
abstract class FastReply implements Reply {
  protected readonly socket: Socket
  protected readonly life: ConnectionLife
  protected readonly lane: ReplyLane
  /** Bytes that arrived after a request whose response is not complete. */
  protected early: Buffer | null = null
  protected started = false
  /** The connection ends with this response. */
  protected last = false
  private chunked = false
  private awaitsDrain = false

  constructor(socket: Socket, life: ConnectionLife, lane: ReplyLane) {
    this.socket = socket
    this.life = life
    this.lane = lane
  }

  /** The response is complete. `now`: `performance.now()`. */
  protected abstract responded(now: number): void

  get open(): boolean {
    return !this.started && !this.socket.destroyed
  }

  sendWhole(head: OutgoingResponse, length: number | null, body: Body | null): void {
    const now = performance.now()
    const ends = this.begun(now)
    if (body === null) this.socket.write(headOf(head, length, ends), 'latin1')
    else writeMessage(this.socket, headWith(head, ends.length), body)
    this.responded(now)
  }

  start(head: OutgoingResponse, length: number | null): void {
    this.chunked = needsChunks(head, length)
    this.socket.write(headOf(head, length, this.begun(performance.now())), 'latin1')
  }

  private begun(now: number): Endings {
    this.started = true
    // Bytes that follow this request may be another one, which gets its response, too.
    this.last = this.early === null && this.lane.lives.isOver(this.life, now)
    return this.last ? closing : keepingAlive(this.lane.config().keepAlive)
  }

  write(chunk: Buffer): boolean {
    return this.chunked ? writeChunk(this.socket, chunk) : this.socket.write(chunk)
  }

  drained(resume: () => void): void {
    // Several chunks of one read may find the socket full: one listener serves all.
    if (this.awaitsDrain) return
    this.awaitsDrain = true
    this.socket.once('drain', () => {
      this.awaitsDrain = false
      resume()
    })
  }

  end(): void {
    if (this.chunked) this.socket.write('0\r\n\r\n', 'latin1')
    this.chunked = false
    this.responded(performance.now())
  }

  destroy(): void {
    this.socket.destroy()
  }
}

export interface FastLane extends ReplyLane {
  readonly lines: RequestLines<Supplier>
  /** null: there is none. */
  supplierOf(id: string): Supplier | null
  /** The exchange of this request. Null: the request belongs to the general lane, and nothing was sent or counted. */
  begin(inbound: Inbound, supplier: Supplier, length: number): Exchange | null
  /** Passes the connection, and the bytes that were read, to the general lane. */
  handOver(socket: Socket, life: ConnectionLife, bytes: Buffer): void
  /** Counts a connection that was closed for a reason. */
  onClosed(reason: string): void
}

const blankLine = Buffer.from('\r\n\r\n')
const noBytes = Buffer.alloc(0)
/** Milliseconds in which the first request of a new connection may be on its way. */
const newConnection = 100
/** Heads that are kept for a connection, without their first lines: a caller may send for several suppliers. */
const headsOfCaller = 2
const noHead: RequestHead = {
  query: '',
  fields: [],
  length: 0,
  lengthAt: 0,
  encoding: null,
  contentType: undefined,
  forwarded: null,
}
const timedOut = closingResponse('408 Request Timeout')
const malformedBody = closingResponse('400 Bad Request')

/** Bytes that may follow a request before its response. With more, the socket is paused; until it is resumed, its close is not noticed. */
const maxEarly = 64 * 1024

/** The connection is itself the request that is served, and its reply: neither is allocated. */
export class FastConnection extends FastReply implements Inbound, BodySink {
  protected override readonly lane: FastLane
  private readonly onRemoved: (connection: FastConnection) => void
  readonly remote: string
  readonly secure: boolean
  readonly protocol = 'HTTP/1.1'
  readonly identity: CallerIdentity | null
  readonly reply = this
  head: RequestHead = noHead
  arrived = 0
  private readonly reads: SocketReads
  private readonly heads = new HeadTemplates<RequestHead>(headsOfCaller)
  private state: 'head' | 'body' | 'responding' | 'closed' = 'head'
  /** `performance.now()` at which the connection began to wait for the next bytes. */
  private since = performance.now()
  private requests = 0
  /** The request that is served; null: none, or its response is complete. */
  private exchange: Exchange | null = null
  /** Bytes of the request's body that have not arrived. */
  private missing = 0
  /** Reads a body that has the chunked coding; null: the body has a length. */
  private chunks: ChunkedReader | null = null

  constructor(
    socket: Socket,
    life: ConnectionLife,
    lane: FastLane,
    onRemoved: FastConnection['onRemoved'],
  ) {
    super(socket, life, lane)
    this.lane = lane
    this.onRemoved = onRemoved
    this.secure = isTls(socket)
    this.identity = this.secure ? identityOfCaller(socket) : null
    this.remote = plainAddress(socket.remoteAddress ?? '')
    this.reads = new SocketReads(socket, this.onRead)
    // A caller that ends its side has left, as in node:http.
    socket.on('end', this.onEnd)
    socket.on('close', this.onClose)
  }

  private readonly onRead = (count: number, bytes: Buffer): void => {
    if (this.state === 'head') this.readHead(bytes, count)
    else if (this.state === 'responding') {
      this.early = Buffer.concat([this.early ?? noBytes, bytes.subarray(0, count)])
      if (this.early.length > maxEarly) this.reads.pause()
    } else if (this.state === 'body') {
      if (this.chunks === null) this.readBody(bytes, 0, count)
      else this.readChunks(this.chunks, bytes, 0, count)
    }
  }

  private readonly onEnd = (): void => void this.socket.destroy()

  private readonly onClose = (): void => {
    this.state = 'closed'
    this.onRemoved(this)
    this.exchange?.callerGone()
  }

  // --- the request ---

  private readHead(bytes: Buffer, count: number): void {
    const { heads } = this
    // A body that is short and complete is passed on as text.
    const length = count <= singleWrite ? count : longestLine + heads.reach
    const text = bytes.toString('latin1', 0, length)
    const { lines } = this.lane
    const line = lines.read(bytes, text)
    const known = line === notKept ? null : heads.match(text, lines.lengthOf(line))
    if (known !== null) {
      setQueryAndLength(known, lines.queryOf(line), heads.length)
      return this.begin(known, lines.targetOf(line), bytes, count, text, heads.end)
    }
    const end = bytes.subarray(0, count).indexOf(blankLine)
    const headText = bytes.toString('latin1', 0, end + 2)
    const head = end < 0 ? null : readRequestHead(headText)
    if (head === null) return this.handOver(bytes.subarray(0, count))
    if (head.length !== chunked && line !== notKept)
      heads.keep(headText.slice(lines.lengthOf(line)), head, true)
    const supplier =
      line === notKept
        ? this.lane.supplierOf(readRequestLine(headText)!.supplier)
        : lines.targetOf(line)
    this.begin(head, supplier, bytes, count, text, end + 4)
  }

  /** `text`: the beginning of what was read. `from`: the position of the body. */
  private begin(
    head: RequestHead,
    supplier: Supplier | null,
    bytes: Buffer,
    count: number,
    text: string,
    from: number,
  ): void {
    const { length } = head
    this.head = head
    this.arrived = performance.now()
    this.since = this.arrived
    const exchange = supplier === null ? null : this.lane.begin(this, supplier, Math.max(0, length))
    if (exchange === null) return this.handOver(bytes.subarray(0, count))
    this.requests++
    this.started = false
    this.missing = length
    this.state = 'body'
    this.exchange = exchange.admit() === null ? exchange : null
    if (length === chunked) {
      this.chunks = new ChunkedReader(this.lane.config().maxRequestBytes)
      this.readChunks(this.chunks, bytes, from, count)
    } else if (text.length - from >= length) this.readWhole(bytes, count, text, from)
    else this.readBody(bytes, from, count)
  }

  private handOver(read: Buffer): void {
    const { socket } = this
    this.state = 'closed'
    this.onRemoved(this)
    this.reads.stop()
    socket.off('end', this.onEnd).off('close', this.onClose)
    this.lane.handOver(socket, this.life, Buffer.from(read))
  }

  private readWhole(bytes: Buffer, count: number, text: string, from: number): void {
    const to = from + this.missing
    this.missing = 0
    if (this.exchange?.receiveBody(text.slice(from, to)) === false) this.tooLarge()
    this.bodyEnded(bytes, to, count)
  }

  /** The part of a body that arrives after its response is discarded. */
  private readBody(bytes: Buffer, from: number, count: number): void {
    const to = Math.min(count, from + this.missing)
    this.missing -= to - from
    const chunk = bytes.subarray(from, to)
    if (to > from && this.exchange?.receiveBody(Buffer.from(chunk)) === false) this.tooLarge()
    if (this.closed) return
    if (this.missing > 0) return this.exchange?.awaitBody()
    this.bodyEnded(bytes, to, count)
  }

  private readChunks(chunks: ChunkedReader, bytes: Buffer, from: number, count: number): void {
    const to = chunks.read(bytes.subarray(0, count), from, this)
    if (this.closed) return
    if (to < 0) return this.refuseMalformed()
    if (chunks.tooLarge && this.exchange !== null) {
      this.exchange.refuseBody(413)
      this.tooLarge()
    }
    if (!chunks.done) return this.exchange?.awaitBody()
    this.chunks = null
    this.bodyEnded(bytes, to, count)
  }

  bodyBytes(bytes: Buffer, from: number, to: number): void {
    if (this.exchange?.receiveBody(Buffer.from(bytes.subarray(from, to))) === false) this.tooLarge()
  }

  /** Where the next request begins is not known: the connection ends. */
  private refuseMalformed(): void {
    const { socket, started } = this
    this.exchange?.refuseBody(400)
    this.exchange = null
    this.lane.onClosed('malformed_chunks')
    this.state = 'closed'
    this.since = performance.now()
    if (started) socket.destroySoon()
    else refuseBytes(socket, malformedBody)
  }

  /** `to`: the position after the body. */
  private bodyEnded(bytes: Buffer, to: number, count: number): void {
    if (this.closed) return
    if (to < count) this.early = Buffer.from(bytes.subarray(to, count))
    if (this.exchange === null) return this.next(performance.now())
    this.state = 'responding'
    this.exchange.bodyReceived()
  }

  /** A reload has lowered the limit after the head arrived. */
  private tooLarge(): void {
    const { head, body } = problem('body')
    this.sendWhole(head, body.length, body)
  }

  /** The request is complete, and so is its response. The next request is read after the caller has read the response. */
  private next(now: number): void {
    this.state = 'head'
    // An idle connection keeps no long head.
    this.head = noHead
    this.since = now
    const { socket } = this
    if (!socket.writableNeedDrain) return this.resume()
    this.reads.pause()
    socket.once('drain', this.resume)
  }

  private readonly resume = (): void => {
    if (this.state !== 'head') return
    this.reads.resume()
    const { early } = this
    this.early = null
    // Pipelining is rare, and node:http implements it.
    if (early !== null) this.handOver(early)
  }

  private get closed(): boolean {
    return this.state === 'closed'
  }

  // --- after the response ---

  protected responded(now: number): void {
    this.exchange = null
    if (this.last) this.closeSoon()
    else if (this.state === 'responding') this.next(now)
  }

  /** Closes the connection once everything is written. Over TLS the caller is notified, so that it knows that nothing is missing. */
  closeSoon(): void {
    this.state = 'closed'
    this.since = performance.now()
    this.socket.destroySoon()
  }

  // --- time limits ---

  /** Whether the connection waits for a request. The first request of a new connection may be on its way. */
  get idle(): boolean {
    if (this.state !== 'head' || this.socket.writableLength > 0) return false
    return this.requests > 0 || performance.now() - this.since > newConnection
  }

  /** Closes a connection that has waited too long. A request that is being served has its own deadline. */
  check(now: number): void {
    const { writableLength } = this.socket
    const idle = this.state === 'head' && this.requests > 0 && writableLength === 0
    const { keepAlive, headTimeout } = this.lane.config()
    const limit = idle ? keepAlive : headTimeout
    if (this.state === 'responding' || now - this.since <= limit) return
    if (!this.closed && writableLength === 0) return this.expireAfterReads(!idle)
    // A caller that does not read its response would occupy memory and a connection for ever.
    this.lane.onClosed('unread')
    this.socket.destroy()
  }

  /** Time limits are checked before sockets are read: while the loop was held, the next bytes may have arrived. */
  private expireAfterReads(requestExpected: boolean): void {
    const { since, state } = this
    setImmediate(() => {
      if (this.since === since && this.state === state) this.expire(requestExpected)
    })
  }

  private expire(requestExpected: boolean): void {
    if (requestExpected) {
      this.lane.onClosed('ERR_HTTP_REQUEST_TIMEOUT')
      if (this.open) this.socket.write(timedOut, 'latin1')
    }
    this.closeSoon()
    this.socket.resume()
  }
}
