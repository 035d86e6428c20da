/** The response to a request of the fast lane: its head, and its body, whole, as a stream, or in chunks. */
import type { Socket } from 'node:net'
import type { ProxyConfig } from '../config.ts'
import type { Body, Reply } from '../types.ts'
import type { OutgoingResponse } from '../wire/outgoing-heads.ts'
import { writeMessage } from '../wire/write-message.ts'
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

export interface ReplyLane {
  readonly lives: ConnectionLives
  /** The current configuration. */
  config(): ProxyConfig
}

export abstract class FastReply implements Reply {
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
