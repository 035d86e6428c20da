/**
 * The fast lane's side of the caller: raw sockets, one connection after another request by request. It takes only what
 * it is certain about; any other connection goes, its bytes unread, to the general lane, and stays there.
 *
 *   head ──▶ body ──▶ answering ──▶ head …          refused before its body has come: ──▶ skipping ──▶ head
 */
import type { Socket } from 'node:net'
import { plainAddress } from '../callers.ts'
import type { Exchange } from '../exchange/exchange.ts'
import { problem } from '../problem.ts'
import { lastAnswer } from '../wire/fields.ts'
import { type RequestHead, readRequestHead } from '../wire/request-head.ts'
import { FastReply, type ReplyGate } from './strict-reply.ts'
import type { Inbound } from './types.ts'

export interface FastGate {
  /** The exchange of this request; null: the general lane shall have it. Nothing has been said or counted then. */
  begin(inbound: Inbound, head: RequestHead): Exchange | null
  /** The connection and what was read of it go to the general lane. */
  handOver(socket: Socket, bytes: Buffer): void
  /** Whether an answer on this connection, given now, is its last. */
  closes(socket: Socket): boolean
  /** Counts a connection that was closed for a reason. */
  onClosed(reason: string): void
  /** Milliseconds: a head or a body, and silence between requests. */
  readonly headTimeout: number
  readonly keepAlive: number
}

const blankLine = Buffer.from('\r\n\r\n')
/** Milliseconds. */
const young = 100
const timedOut = lastAnswer('408 Request Timeout')

/** What may come behind a request before it is answered; past it nothing is read, not even that the caller has gone. */
const mostEarly = 64 * 1024

export class FastConnection implements ReplyGate {
  private readonly socket: Socket
  private readonly gate: FastGate
  private readonly onGone: (connection: FastConnection) => void
  private readonly remote: string
  private readonly reply: FastReply
  private where: 'head' | 'body' | 'answering' | 'skipping' | 'gone' = 'head'
  /** Since when it waits for what comes next, `performance.now()`. */
  private since = performance.now()
  private requests = 0
  private exchange: Exchange | null = null
  private left = 0
  /** What came behind a request that is not answered yet. */
  private early: Buffer | null = null
  private answered = false

  constructor(socket: Socket, gate: FastGate, onGone: (connection: FastConnection) => void) {
    this.socket = socket
    this.gate = gate
    this.onGone = onGone
    this.remote = plainAddress(socket.remoteAddress ?? '')
    this.reply = new FastReply(socket, this, this.answeredNow)
    socket.on('data', this.onData)
    // A caller that ends its side has gone, as for node:http.
    socket.on('end', this.onEnd)
    socket.on('close', this.onClose)
  }

  private readonly onData = (chunk: Buffer): void => {
    if (this.where === 'head') this.head(chunk)
    else if (this.where === 'answering') {
      this.early = this.early === null ? chunk : Buffer.concat([this.early, chunk])
      if (this.early.length > mostEarly) this.socket.pause()
    } else if (this.where !== 'gone') this.body(chunk, 0)
  }

  private readonly onEnd = (): void => void this.socket.destroy()

  private readonly onClose = (): void => {
    this.where = 'gone'
    this.onGone(this)
    if (!this.answered) this.exchange?.callerGone()
  }

  private head(chunk: Buffer): void {
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
      reply: this.reply,
    }
    const exchange = this.gate.begin(inbound, head)
    if (exchange === null) return this.handOver(chunk)
    this.requests++
    this.exchange = exchange
    this.left = head.length
    this.reply.begin()
    this.answered = false
    this.where = 'body'
    exchange.admit()
    if (!this.gone) this.body(chunk, end + 4)
  }

  private handOver(bytes: Buffer): void {
    const { socket } = this
    this.where = 'gone'
    this.onGone(this)
    socket.off('data', this.onData)
    socket.off('end', this.onEnd)
    socket.off('close', this.onClose)
    this.gate.handOver(socket, bytes)
  }

  private body(chunk: Buffer, from: number): void {
    const to = Math.min(chunk.length, from + this.left)
    this.left -= to - from
    if (to > from && !this.answered && !this.exchange!.receive(chunk.subarray(from, to)))
      this.tooLarge()
    if (this.gone) return
    if (this.left > 0) return void this.exchange!.awaitBody()
    if (to < chunk.length) this.early = chunk.subarray(to)
    if (this.answered) return this.next()
    this.where = 'answering'
    this.exchange!.received()
  }

  /** A reload has lowered the limit since the head came. */
  private tooLarge(): void {
    const { status, message, headers, body } = problem('body')
    this.reply.whole(status, message, [...headers], body)
  }

  /** The request is read and answered. The next one is read once the caller takes what it was answered. */
  private next(): void {
    this.exchange = null
    this.where = 'head'
    this.since = performance.now()
    const { socket } = this
    if (!socket.writableNeedDrain) return this.goOn()
    socket.pause()
    socket.once('drain', this.goOn)
  }

  private readonly goOn = (): void => {
    if (this.where !== 'head') return
    if (this.socket.isPaused()) this.socket.resume()
    const { early } = this
    if (early === null) return
    this.early = null
    // Pipelining is rare, and node:http does it right.
    this.handOver(early)
  }

  private get gone(): boolean {
    return this.where === 'gone'
  }

  /** What came behind this request is answered, too. */
  get ends(): boolean {
    return this.early === null && this.gate.closes(this.socket)
  }

  get keepAlive(): number {
    return this.gate.keepAlive
  }

  destroy(): void {
    this.socket.destroy()
  }

  /** `last`: the connection ends with this answer. */
  private readonly answeredNow = (last: boolean): void => {
    this.answered = true
    if (last) {
      this.where = 'gone'
      this.since = performance.now()
      this.socket.destroySoon()
    } else if (this.where === 'answering') this.next()
    else this.where = 'skipping'
  }

  // --- time ---

  /** It waits for a request; that of a connection which is just there may be on its way. */
  get idle(): boolean {
    if (this.where !== 'head' || this.socket.writableLength > 0) return false
    return this.requests > 0 || performance.now() - this.since > young
  }

  /** Closes what has waited too long; what is being answered has its own deadline. */
  check(now: number): void {
    const { writableLength } = this.socket
    const idle = this.where === 'head' && this.requests > 0 && writableLength === 0
    const limit = idle ? this.gate.keepAlive : this.gate.headTimeout
    if (this.where === 'answering' || now - this.since <= limit) return
    if (this.where !== 'gone' && writableLength === 0) return this.expire(!idle)
    // A caller that does not take its answer would hold it, and its connection, for ever.
    this.gate.onClosed('unread')
    this.socket.destroy()
  }

  private expire(asked: boolean): void {
    if (asked) {
      this.gate.onClosed('ERR_HTTP_REQUEST_TIMEOUT')
      if (this.reply.open) this.socket.write(timedOut, 'latin1')
    }
    this.where = 'gone'
    this.since = performance.now()
    this.socket.destroySoon()
    this.socket.resume()
  }
}
