/**
 * A caller's connection on the fast lane: a raw socket that serves one request after another, and the reply to each.
 * It accepts only requests that are certain to be well-formed bid requests. Any other connection is passed, with its
 * bytes unread, to the general lane, and stays there.
 *
 *   head ──▶ body ──▶ responding ──▶ head …         responded before the body was complete: the rest is discarded
 */
import type { Socket } from 'node:net'
import { plainAddress } from '../callers.ts'
import type { Exchange } from '../exchange/exchange.ts'
import { problem } from '../problem.ts'
import { closingResponse } from '../wire/fields.ts'
import { type RequestHead, readRequestHead } from '../wire/request-head.ts'
import type { ConnectionLife } from './connection-life.ts'
import { needsChunks, responseHead, writeChunk, writeMessage } from './strict-reply.ts'
import type { Inbound, Reply } from './types.ts'

export interface FastLane {
  /** The exchange of this request. Null: the request belongs to the general lane, and nothing was sent or counted. */
  begin(inbound: Inbound, head: RequestHead): Exchange | null
  /** Passes the connection, and the bytes that were read, to the general lane. */
  handOver(socket: Socket, bytes: Buffer): void
  /** Whether the connection ends with its next response. */
  isOver(life: ConnectionLife): boolean
  /** Counts a connection that was closed for a reason. */
  onClosed(reason: string): void
  /** Milliseconds: for a head or a body to arrive, and between requests. */
  readonly headTimeout: number
  readonly keepAlive: number
}

const blankLine = Buffer.from('\r\n\r\n')
/** Milliseconds in which the first request of a new connection may be on its way. */
const newConnection = 100
const timedOut = closingResponse('408 Request Timeout')

/** Bytes that may follow a request before its response. After that the socket is paused, and a close is not noticed. */
const maxEarly = 64 * 1024

export class StrictConnection implements Reply {
  private readonly socket: Socket
  private readonly life: ConnectionLife
  private readonly lane: FastLane
  private readonly onRemoved: (connection: StrictConnection) => void
  private readonly remote: string
  private state: 'head' | 'body' | 'responding' | 'closed' = 'head'
  /** `performance.now()` at which the connection began to wait for the next bytes. */
  private since = performance.now()
  private requests = 0
  /** The request that is served; null: none, or its response is complete. */
  private exchange: Exchange | null = null
  /** Bytes of the request's body that have not arrived. */
  private missing = 0
  /** Bytes that arrived after a request whose response is not complete. */
  private early: Buffer | null = null
  // The response.
  private started = false
  private chunked = false
  private last = false
  private awaitsDrain = false

  constructor(
    socket: Socket,
    life: ConnectionLife,
    lane: FastLane,
    onRemoved: (connection: StrictConnection) => void,
  ) {
    this.socket = socket
    this.life = life
    this.lane = lane
    this.onRemoved = onRemoved
    this.remote = plainAddress(socket.remoteAddress ?? '')
    socket.on('data', this.onData)
    // A caller that ends its side has left, as in node:http.
    socket.on('end', this.onEnd)
    socket.on('close', this.onClose)
  }

  private readonly onData = (chunk: Buffer): void => {
    if (this.state === 'head') this.readHead(chunk)
    else if (this.state === 'responding') {
      this.early = this.early === null ? chunk : Buffer.concat([this.early, chunk])
      if (this.early.length > maxEarly) this.socket.pause()
    } else if (this.state === 'body') this.readBody(chunk, 0)
  }

  private readonly onEnd = (): void => void this.socket.destroy()

  private readonly onClose = (): void => {
    this.state = 'closed'
    this.onRemoved(this)
    this.exchange?.callerGone()
  }

  // --- the request ---

  private readHead(chunk: Buffer): void {
    const end = chunk.indexOf(blankLine)
    const head = end < 0 ? null : readRequestHead(chunk.toString('latin1', 0, end + 2))
    if (head === null) return this.handOver(chunk)
    this.since = performance.now()
    const inbound: Inbound = {
      headers: head.fields,
      query: head.query,
      remote: this.remote,
      secure: false,
      arrived: this.since,
      reply: this,
    }
    const exchange = this.lane.begin(inbound, head)
    if (exchange === null) return this.handOver(chunk)
    this.requests++
    this.started = false
    this.missing = head.length
    this.state = 'body'
    this.exchange = exchange.admit() === null ? exchange : null
    this.readBody(chunk, end + 4)
  }

  private handOver(bytes: Buffer): void {
    const { socket } = this
    this.state = 'closed'
    this.onRemoved(this)
    socket.off('data', this.onData)
    socket.off('end', this.onEnd)
    socket.off('close', this.onClose)
    this.lane.handOver(socket, bytes)
  }

  /** The part of a body that arrives after its response is discarded. */
  private readBody(chunk: Buffer, from: number): void {
    const to = Math.min(chunk.length, from + this.missing)
    this.missing -= to - from
    if (to > from && this.exchange?.receiveBody(chunk.subarray(from, to)) === false) this.tooLarge()
    if (this.closed) return
    if (this.missing > 0) return this.exchange?.awaitBody()
    if (to < chunk.length) this.early = chunk.subarray(to)
    if (this.exchange === null) return this.next()
    this.state = 'responding'
    this.exchange.bodyReceived()
  }

  /** A reload has lowered the limit after the head arrived. */
  private tooLarge(): void {
    const { status, message, headers, body } = problem('body')
    this.whole(status, message, [...headers], body)
  }

  /** The request is complete, and so is its response. The next request is read after the caller has read the response. */
  private next(): void {
    this.state = 'head'
    this.since = performance.now()
    const { socket } = this
    if (!socket.writableNeedDrain) return this.resume()
    socket.pause()
    socket.once('drain', this.resume)
  }

  private readonly resume = (): void => {
    if (this.state !== 'head') return
    if (this.socket.isPaused()) this.socket.resume()
    const { early } = this
    if (early === null) return
    this.early = null
    // Pipelining is rare, and node:http implements it.
    this.handOver(early)
  }

  private get closed(): boolean {
    return this.state === 'closed'
  }

  // --- the response ---

  get open(): boolean {
    return !this.started && !this.socket.destroyed
  }

  whole(status: number, message: string, headers: string[], body: Buffer | string | null): void {
    writeMessage(this.socket, this.headOf(status, message, headers, ''), body)
    this.responded()
  }

  private headOf(status: number, message: string, headers: string[], framing: string): string {
    this.started = true
    // Bytes that follow this request may be another one, which gets its response, too.
    this.last = this.early === null && this.lane.isOver(this.life)
    return responseHead(status, message, headers, framing, this.last ? null : this.lane.keepAlive)
  }

  start(status: number, message: string, headers: string[]): void {
    this.chunked = needsChunks(status, headers)
    const framing = this.chunked ? 'Transfer-Encoding: chunked\r\n' : ''
    this.socket.write(this.headOf(status, message, headers, framing), 'latin1')
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
    this.responded()
  }

  destroy(): void {
    this.socket.destroy()
  }

  private responded(): void {
    this.exchange = null
    if (this.last) this.closeSoon()
    else if (this.state === 'responding') this.next()
  }

  private closeSoon(): void {
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
    const limit = idle ? this.lane.keepAlive : this.lane.headTimeout
    if (this.state === 'responding' || now - this.since <= limit) return
    if (!this.closed && writableLength === 0) return this.expire(!idle)
    // A caller that does not read its response would occupy memory and a connection for ever.
    this.lane.onClosed('unread')
    this.socket.destroy()
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
