/** Heads of responses on the fast lane, and bodies in chunks. */
import type { Socket } from 'node:net'
import type { OutgoingResponse } from '../wire/outgoing-heads.ts'

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
export function responseHead(
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
export const needsChunks = ({ status }: OutgoingResponse, length: number | null): boolean =>
  length === null && status !== 204 && status !== 304

/** False: the caller reads more slowly than the response arrives. */
export function writeChunk(socket: Socket, chunk: Buffer): boolean {
  socket.cork()
  socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
  socket.write(chunk)
  const flowing = socket.write('\r\n', 'latin1')
  socket.uncork()
  return flowing
}
