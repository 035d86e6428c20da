/** Writes responses of the fast lane: the head as text, the body framed by its length or in chunks. */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { header } from '../exchange/headers.ts'
import { headText } from '../wire/fields.ts'

/** Head and body up to this length are written as one string: Node copies it to the stack and allocates nothing. */
const singleWrite = 16 * 1024

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

/** `framing`: header lines of the body's framing. `keepAlive`: milliseconds; null: the connection ends with this response. */
export function responseHead(
  status: number,
  message: string,
  headers: string[],
  framing: string,
  keepAlive: number | null,
): string {
  const reason = message === '' ? (STATUS_CODES[status] ?? '') : message
  const dateLine = header(headers, 'date') === undefined ? `Date: ${dateNow()}\r\n` : ''
  const persistence =
    keepAlive === null
      ? 'Connection: close\r\n\r\n'
      : `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAlive / 1000)}\r\n\r\n`
  return headText(`HTTP/1.1 ${status} ${reason}\r\n`, headers) + dateLine + framing + persistence
}

/** Whether a response with this head needs the chunked coding. */
export const needsChunks = (status: number, headers: string[]): boolean =>
  status !== 204 && status !== 304 && header(headers, 'content-length') === undefined

export function writeMessage(socket: Socket, head: string, body: Buffer | string | null): void {
  if (body === null) socket.write(head, 'latin1')
  else if (head.length + body.length <= singleWrite)
    socket.write(head + (typeof body === 'string' ? body : body.toString('latin1')), 'latin1')
  else {
    socket.cork()
    socket.write(head, 'latin1')
    if (typeof body === 'string') socket.write(body, 'latin1')
    else socket.write(body)
    socket.uncork()
  }
}

/** False: the caller reads more slowly than the response arrives. */
export function writeChunk(socket: Socket, chunk: Buffer): boolean {
  socket.cork()
  socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
  socket.write(chunk)
  const flowing = socket.write('\r\n', 'latin1')
  socket.uncork()
  return flowing
}
