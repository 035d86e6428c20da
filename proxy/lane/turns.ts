/**
 * Whose turn it is on a connection of node:http's: requests may stand in line there (RFC 9112 9.3.2), each with its
 * own answer. Which of them is the last, and what becomes of bytes behind them that are no request.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { lastAnswer } from '../wire/fields.ts'

export interface Connection extends Socket {
  /** `performance.now()` from which on the connection is to end. */
  bidweirRetire?: number
  /** The answer to the request that came last. */
  bidweirNewest?: ServerResponse
  /** The answer that ends the connection. */
  bidweirLast?: ServerResponse
  /** What stands behind the newest request is no request, and will be told so. */
  bidweirFaulty?: boolean
}

export const connectionOf = (response: ServerResponse): Connection => response.req.socket

/** Notes a request. False: an answer before it has ended the connection already, nobody waits for another. */
export function arrived(response: ServerResponse): boolean {
  const connection = connectionOf(response)
  if (connection.bidweirLast !== undefined) return false
  connection.bidweirNewest = response
  return true
}

/** Asked when an answer's head is written. The last one is that of the newest request which is already here. */
export function isLast(response: ServerResponse, retired: boolean): boolean {
  const connection = connectionOf(response)
  if (retired && connection.bidweirLast === undefined && connection.bidweirNewest !== undefined)
    connection.bidweirLast = connection.bidweirNewest
  return connection.bidweirLast === response
}

/** How long a caller may go on sending before it reads why nobody listens: closed at once, it would get a reset. */
const linger = 1000

function lastWords(connection: Connection, line: string): void {
  if (!connection.writable) return
  connection.end(lastAnswer(line))
  const close = setTimeout(() => connection.destroy(), linger)
  connection.once('close', () => clearTimeout(close))
}

/**
 * What came on this connection is no request, or too slow: answers `line` (status and reason) where an answer is due,
 * never into another one, and closes.
 */
export function refuseBytes(connection: Connection, line: string): void {
  const { bidweirNewest: newest } = connection
  // The caller has ended its side in the middle of something: it has gone.
  if (connection.readableEnded) return connection.destroySoon()
  if (!connection.writable) return
  const tell = () => lastWords(connection, line)
  const whole = newest === undefined || newest.req.complete
  if (newest === undefined || newest.writableFinished)
    return whole ? tell() : connection.destroySoon()
  if (whole) {
    if (!connection.bidweirFaulty) newest.once('finish', tell)
    connection.bidweirFaulty = true
  } else if (!newest.headersSent) {
    newest.shouldKeepAlive = false
    newest.writeHead(Number(line.slice(0, 3)), line.slice(4), ['Content-Length', '0'])
    newest.end()
  } else if (newest.writableEnded) newest.once('finish', () => connection.destroySoon())
  else connection.destroy()
}
