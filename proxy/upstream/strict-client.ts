/**
 * A connection to a plain HTTP/1.1 endpoint on net alone: about 15 us of CPU per request less than undici, of which
 * reading into one shared buffer and writing head and body at once are most. It takes complete, unambiguous answers;
 * on anything else it drops the connection and says `broken`.
 */
import { connect, type LookupFunction, type Socket } from 'node:net'
import type { AnswerSink, SendFailure, Sent } from '../listen/types.ts'
import { ChunkedReader, type Pieces } from '../wire/chunked.ts'
import { headText } from '../wire/fields.ts'
import { type AnswerHead, readAnswerHead } from '../wire/response-head.ts'
import { deaf, type Owner, spareOf } from './pool-events.ts'

const blankLine = Buffer.from('\r\n\r\n')
const longestHead = 64 * 1024
/** Interim answers (RFC 9110 15.2) before the final one. */
const mostInterim = 32
/** Head and body up to here leave as one string: Node copies it onto the stack and allocates nothing. */
const oneWrite = 16 * 1024
/** All connections read into it: what is kept is copied before the next read. */
const shared = Buffer.allocUnsafeSlow(64 * 1024)

export interface Target {
  host: string
  port: number
  lookup: LookupFunction
}

export class WireConnection implements Sent, Pieces {
  born = performance.now()
  /** Until when an idle one may be used again, `performance.now()`. */
  spareUntil = 0
  private readonly socket: Socket
  private readonly owner: Owner<WireConnection>
  private connected = false
  private address = ''
  private gone = false
  private uses = 0
  private sink: AnswerSink | null = null
  /** The request that waits for the connection. */
  private waiting: { head: string; body: Buffer } | null = null
  private answered = false
  private error: Error | null = null
  // The answer as it comes.
  private partial: Buffer | null = null
  private interim = 0
  private head: AnswerHead | null = null
  private left = 0
  private chunks: ChunkedReader | null = null
  private flowing = true
  private readonly resume = () => {
    this.flowing = true
    this.socket.resume()
  }

  constructor(target: Target, owner: Owner<WireConnection>) {
    this.owner = owner
    this.socket = connect({
      ...target,
      autoSelectFamily: false,
      noDelay: true,
      onread: {
        buffer: shared,
        callback: (count) => {
          this.received(shared.subarray(0, count))
          return this.flowing
        },
      },
    })
    this.socket.on('lookup', (_error, address) => {
      this.address = address
    })
    this.socket.on('connect', () => this.open())
    this.socket.on('error', (error: Error & { address?: string }) => {
      this.error = error
      if (!this.connected) owner.failed(error.address ?? '')
    })
    this.socket.on('end', () => this.ended())
    this.socket.on('close', () => this.fail('the connection closed'))
  }

  get usable(): boolean {
    return !this.gone && this.connected && !this.socket.destroyed
  }

  dispatch(path: string, headers: string[], body: Buffer, sink: AnswerSink): void {
    this.sink = sink
    this.answered = false
    this.interim = 0
    const head = `${headText(`POST ${path} HTTP/1.1\r\n`, headers)}\r\n`
    if (this.connected) this.write(head, body)
    else this.waiting = { head, body }
  }

  private open(): void {
    this.connected = true
    this.born = performance.now()
    const { waiting } = this
    this.waiting = null
    if (waiting !== null) this.write(waiting.head, waiting.body)
  }

  private write(head: string, body: Buffer): void {
    this.uses++
    const { socket } = this
    if (head.length + body.length <= oneWrite)
      return void socket.write(head + body.toString('latin1'), 'latin1')
    socket.cork()
    socket.write(head, 'latin1')
    socket.write(body)
    socket.uncork()
  }

  abort(): void {
    this.sink = null
    if (!this.connected && performance.now() - this.born > deaf) this.owner.failed(this.address)
    this.destroy()
  }

  destroy(): void {
    if (this.gone) return
    this.gone = true
    this.owner.forget(this)
    this.socket.destroy()
  }

  // --- the answer ---

  private received(bytes: Buffer): void {
    // Nobody asked: what an idle connection says is no answer to the next request.
    if (this.sink === null) return this.destroy()
    this.answered = true
    let at = 0
    let from = bytes
    if (this.head === null) {
      if (this.partial !== null) from = Buffer.concat([this.partial, bytes])
      this.partial = null
      at = this.readHead(from)
      if (at < 0) return
    }
    this.readBody(from, at)
  }

  /** Where the body begins; -1: not yet, or never. */
  private readHead(bytes: Buffer): number {
    for (let at = 0; ; ) {
      const end = bytes.indexOf(blankLine, at)
      if (end < 0 || end - at > longestHead) return this.incomplete(bytes, at)
      const head = readAnswerHead(bytes.toString('latin1', at, end + 2))
      if (head === null || head.status === 101) return this.malformed('not an answer of HTTP/1.1')
      at = end + 4
      if (head.status >= 200) {
        this.head = head
        if (head.body === 'chunked') this.chunks = new ChunkedReader()
        else this.left = head.body === 'close' ? Number.POSITIVE_INFINITY : head.body
        this.sink!.head(head.status, head.message, head.fields)
        return at
      }
      if (++this.interim > mostInterim) return this.malformed('too many interim answers')
    }
  }

  private incomplete(bytes: Buffer, at: number): number {
    const rest = bytes.subarray(at)
    if (rest.length > longestHead) return this.malformed('a head over 64 KiB')
    if (!'HTTP/1.'.startsWith(rest.toString('latin1', 0, 7))) return this.malformed('not HTTP')
    // It would never come to a blank line, and its caller would wait for the deadline.
    const end = rest.indexOf(10)
    if (end >= 0 && rest[end - 1] !== 13) return this.malformed('a head of bare line feeds')
    this.partial = Buffer.from(rest)
    return -1
  }

  private malformed(what: string): -1 {
    this.fail(what)
    return -1
  }

  private readBody(bytes: Buffer, at: number): void {
    if (this.chunks !== null) {
      const end = this.chunks.read(bytes, at, this)
      if (end < 0) return this.fail('a chunked body that is none')
      if (this.chunks.done) this.complete(end === bytes.length)
      return
    }
    const to = Math.min(bytes.length, at + this.left)
    this.left -= to - at
    if (to > at) this.piece(bytes, at, to)
    if (this.left === 0) this.complete(to === bytes.length)
  }

  piece(bytes: Buffer, from: number, to: number): void {
    if (this.sink === null) return
    const copy = Buffer.from(bytes.subarray(from, to))
    if (!this.sink.data(copy, this.resume)) this.flowing = false
  }

  /** `alone`: nothing came behind the answer. */
  private complete(alone: boolean): void {
    const { sink, head } = this
    if (sink === null || head === null) return
    this.sink = null
    this.head = null
    this.chunks = null
    // Its last piece may wait for a slow caller; the next request's answer shall not.
    this.flowing = true
    const spare = alone && head.keeps ? spareOf(head.hint) : 0
    // A request that is still being written met an early answer: the rest of it would be read as the next one.
    if (spare > 0 && this.usable && this.socket.writableLength === 0) {
      this.spareUntil = performance.now() + spare
      this.owner.release(this)
    } else this.destroy()
    sink.end()
  }

  private ended(): void {
    if (this.head?.body === 'close') this.complete(false)
    else this.fail('the connection ended')
  }

  private fail(what: string): void {
    const { sink } = this
    const kind = this.failureKind()
    this.sink = null
    this.destroy()
    sink?.fail({ kind, error: this.error ?? new Error(what) })
  }

  private failureKind(): SendFailure['kind'] {
    if (!this.connected) return 'unsent'
    return this.uses > 1 && !this.answered ? 'reused' : 'broken'
  }
}
