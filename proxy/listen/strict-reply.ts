/** The fast lane's way back to the caller: heads and bodies as bytes on the socket, one answer after another. */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { header } from '../exchange/headers.ts'
import { headText } from '../wire/fields.ts'
import type { Reply } from './types.ts'

export interface ReplyGate {
  /** Whether an answer, given now, is the last one of its connection. */
  readonly ends: boolean
  /** Milliseconds that an idle connection is kept, as callers are told. */
  readonly keepAlive: number
}

/** Head and body up to here leave as one string: Node copies it onto the stack and allocates nothing. */
const oneWrite = 16 * 1024

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

export class FastReply implements Reply {
  private readonly socket: Socket
  private readonly gate: ReplyGate
  private readonly onDone: (last: boolean) => void
  private started = false
  private chunked = false
  private last = false
  private waits = false

  constructor(socket: Socket, gate: ReplyGate, onDone: (last: boolean) => void) {
    this.socket = socket
    this.gate = gate
    this.onDone = onDone
  }

  /** The next request has come. */
  begin(): void {
    this.started = false
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
    this.last = this.gate.ends
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
    // Many pieces of one read may find it full: one listener for all.
    if (this.waits) return
    this.waits = true
    this.socket.once('drain', () => {
      this.waits = false
      resume()
    })
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
    this.onDone(this.last)
  }
}
