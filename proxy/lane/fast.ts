/**
 * The fast lane's side of the caller: raw sockets, one connection after another request by request. It takes only what
 * it is certain about; any other connection goes, its bytes unread, to the general lane, and stays there.
 *
 *   head ──▶ body ──▶ answering ──▶ head …          refused before its body has come: ──▶ skipping ──▶ head
 */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { plainAddress } from '../callers.ts'
import type { Exchange } from '../exchange.ts'
import { header } from '../headers.ts'
import { headText } from '../wire/fields.ts'
import { type RequestHead, readRequestHead } from '../wire/request-head.ts'
import type { Inbound, Reply } from './lane.ts'

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
/** Head and body up to here leave as one string: Node copies it onto the stack and allocates nothing. */
const oneWrite = 16 * 1024
const timedOut = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'

/** The value of `Date` (RFC 9110 6.6.1), made once a second. */
let dated = ''
let datedUntil = 0
function dateNow(): string {
  const now = Date.now()
  if (now >= datedUntil) {
    dated = new Date(now).toUTCString()
    datedUntil = now - (now % 1000) + 1000
  }
  return dated
}

export class FastConnection implements Reply {
  private readonly socket: Socket
  private readonly gate: FastGate
  private readonly onGone: (connection: FastConnection) => void
  private readonly remote: string
  private where: 'head' | 'body' | 'answering' | 'skipping' | 'gone' = 'head'
  /** Since when it waits for what comes next, `performance.now()`. */
  private since = performance.now()
  private requests = 0
  private exchange: Exchange | null = null
  private left = 0
  /** What came behind a request that is not answered yet. */
  private early: Buffer | null = null
  private started = false
  private answered = false
  private chunked = false
  private last = false

  constructor(socket: Socket, gate: FastGate, onGone: (connection: FastConnection) => void) {
    this.socket = socket
    this.gate = gate
    this.onGone = onGone
    this.remote = plainAddress(socket.remoteAddress ?? '')
    socket.on('data', this.onData)
    // A caller that ends its side has gone, as for node:http.
    socket.on('end', this.onEnd)
    socket.on('close', this.onClose)
  }

  private readonly onData = (chunk: Buffer): void => {
    if (this.where === 'head') this.head(chunk)
    else if (this.where === 'answering') {
      this.early = this.early === null ? chunk : Buffer.concat([this.early, chunk])
      this.socket.pause()
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
      reply: this,
    }
    const exchange = this.gate.begin(inbound, head)
    if (exchange === null) return this.handOver(chunk)
    this.requests++
    this.exchange = exchange
    this.left = head.length
    this.started = false
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
    if (to > from && !this.answered) this.exchange!.receive(chunk.subarray(from, to))
    if (this.left > 0) return
    if (to < chunk.length) {
      this.early = chunk.subarray(to)
      this.socket.pause()
    }
    if (this.answered) return this.next()
    this.where = 'answering'
    this.exchange!.received()
  }

  /** The request is read and answered. */
  private next(): void {
    this.exchange = null
    this.where = 'head'
    this.since = performance.now()
    const { early } = this
    if (early === null) return
    this.early = null
    // Pipelining is rare, and node:http does it right.
    this.handOver(early)
  }

  // --- the answer ---

  private get gone(): boolean {
    return this.where === 'gone'
  }

  get open(): boolean {
    return !this.started && !this.socket.destroyed
  }

  whole(status: number, message: string, headers: string[], body: Buffer | null): void {
    const { socket } = this
    const head = this.headOf(status, message, headers, '')
    if (body === null) socket.write(head, 'latin1')
    else if (head.length + body.length <= oneWrite)
      socket.write(head + body.toString('latin1'), 'latin1')
    else {
      socket.cork()
      socket.write(head, 'latin1')
      socket.write(body)
      socket.uncork()
    }
    this.done()
  }

  private headOf(status: number, message: string, headers: string[], framing: string): string {
    this.started = true
    this.last = this.gate.closes(this.socket)
    const reason = message === '' ? (STATUS_CODES[status] ?? '') : message
    const date = header(headers, 'date') === undefined ? `Date: ${dateNow()}\r\n` : ''
    const persistence = this.last
      ? 'Connection: close\r\n\r\n'
      : `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(this.gate.keepAlive / 1000)}\r\n\r\n`
    return headText(`HTTP/1.1 ${status} ${reason}\r\n`, headers) + date + framing + persistence
  }

  start(status: number, message: string, headers: string[]): void {
    const bodiless = status === 204 || status === 304
    this.chunked = !bodiless && header(headers, 'content-length') === undefined
    const framing = this.chunked ? 'Transfer-Encoding: chunked\r\n' : ''
    this.socket.write(this.headOf(status, message, headers, framing), 'latin1')
  }

  write(chunk: Buffer): boolean {
    if (!this.chunked) return this.socket.write(chunk)
    this.socket.cork()
    this.socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
    this.socket.write(chunk)
    const flowing = this.socket.write('\r\n', 'latin1')
    this.socket.uncork()
    return flowing
  }

  drained(resume: () => void): void {
    this.socket.once('drain', resume)
  }

  end(): void {
    if (this.chunked) this.socket.write('0\r\n\r\n', 'latin1')
    this.chunked = false
    this.done()
  }

  destroy(): void {
    this.socket.destroy()
  }

  private done(): void {
    this.answered = true
    if (this.last) {
      this.where = 'gone'
      this.since = performance.now()
      return this.socket.destroySoon()
    }
    if (this.where === 'answering') this.next()
    else this.where = 'skipping'
  }

  // --- time ---

  get idle(): boolean {
    return this.where === 'head'
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
      if (!this.started) this.socket.write(timedOut, 'latin1')
    }
    this.where = 'gone'
    this.since = performance.now()
    this.socket.destroySoon()
    this.socket.resume()
  }
}
