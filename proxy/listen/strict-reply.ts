/** The response to a request of the fast lane: its head, and its body, whole, as a stream, or in chunks. */
import type { Socket } from 'node:net'
import type { OutgoingResponse } from '../wire/outgoing-heads.ts'
import { writeMessage } from '../wire/write-message.ts'
import type { ConnectionLife } from './connection-life.ts'
import type { Body, Reply } from './types.ts'

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

const closing = 'Connection: close\r\n\r\n'

/** The end of a head after which the connection is kept for another request. */
let keeping = ''
let keepingFor = -1
function persistence(keepAlive: number): string {
  if (keepAlive !== keepingFor) {
    keepingFor = keepAlive
    keeping = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAlive / 1000)}\r\n\r\n`
  }
  return keeping
}

/** `length` null: there is no Content-Length. `keepAlive`: milliseconds; null: the connection ends with this response. */
function responseHead(
  head: OutgoingResponse,
  length: number | null,
  keepAlive: number | null,
): string {
  let text = head.text
  if (!head.dated) text += `Date: ${dateNow()}\r\n`
  if (length !== null) text += `Content-Length: ${length}\r\n`
  else if (needsChunks(head, length)) text += 'Transfer-Encoding: chunked\r\n'
  return text + (keepAlive === null ? closing : persistence(keepAlive))
}

/** Whether a response with this head needs the chunked coding. */
const needsChunks = ({ status }: OutgoingResponse, length: number | null): boolean =>
  length === null && status !== 204 && status !== 304

/** False: the caller reads more slowly than the response arrives. */
function writeChunk(socket: Socket, chunk: Buffer): boolean {
  socket.cork()
  socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
  socket.write(chunk)
  const flowing = socket.write('\r\n', 'latin1')
  socket.uncork()
  return flowing
}

export interface ReplyLane {
  /** Whether the connection ends with its next response. */
  isOver(life: ConnectionLife, now: number): boolean
  /** Milliseconds between requests. */
  readonly keepAlive: number
}

export abstract class StrictReply implements Reply {
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

  whole(head: OutgoingResponse, length: number | null, body: Body | null): void {
    const now = performance.now()
    writeMessage(this.socket, this.headOf(head, length, now), body)
    this.responded(now)
  }

  private headOf(head: OutgoingResponse, length: number | null, now: number): string {
    this.started = true
    // Bytes that follow this request may be another one, which gets its response, too.
    this.last = this.early === null && this.lane.isOver(this.life, now)
    return responseHead(head, length, this.last ? null : this.lane.keepAlive)
  }

  start(head: OutgoingResponse, length: number | null): void {
    this.chunked = needsChunks(head, length)
    this.socket.write(this.headOf(head, length, performance.now()), 'latin1')
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
