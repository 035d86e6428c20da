/**
 * Pipelining on a connection of node:http, for both listeners. The requests of one connection are served one at a time:
 * RFC 9112 9.3.2 allows only safe methods to be served in parallel, and a bid is a POST. So a request behind a response
 * that ends the connection is never started, and nothing is written into the response of another request.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'

export interface Connection extends Socket {
  /** The response to the newest request that was accepted. */
  bidweirNewest?: ServerResponse
  /** Requests that wait for their turn. */
  bidweirWaiting?: number
  /** The bytes behind the newest request are refused: no request after it is accepted. */
  bidweirRefused?: boolean
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void

export interface Pipelining {
  /** Serves a request; its response may be written at once. */
  serve: Handler
  /** Whole responses, as bytes, to an expectation that is not known, and to CONNECT. */
  expectationFailed: string
  noTunnel: string
  /** A connection failed after its CONNECT. */
  onReset(): void
}

/** Requests of one connection that may wait for their turn; a connection with more is destroyed. */
const mostWaiting = 256
/** Milliseconds that a caller may go on sending before it reads its refusal. */
const linger = 1000

export const connectionOf = (response: ServerResponse): Connection => response.req.socket

/** Whether every request before is answered and the connection accepts another. */
export function isIdle(connection: Connection): boolean {
  const { bidweirNewest: newest, bidweirRefused: refused = false } = connection
  return connection.writable && !refused && (newest === undefined || newest.writableFinished)
}

/** Calls `serve` when the response may be written: at once, or when the response before it is finished. */
function inTurn(request: IncomingMessage, response: ServerResponse, serve: Handler): void {
  const connection: Connection = request.socket
  if (!connection.writable || connection.bidweirRefused) return void request.resume()
  connection.bidweirNewest = response
  // node:http gives the connection to one response at a time.
  if (response.socket !== null) return serve(request, response)
  const waiting = (connection.bidweirWaiting ?? 0) + 1
  connection.bidweirWaiting = waiting
  if (waiting > mostWaiting) return void connection.destroy()
  response.once('socket', () =>
    process.nextTick(() => {
      connection.bidweirWaiting!--
      if (connection.writable) serve(request, response)
    }),
  )
}

/** Serves the requests of `server` one at a time on each connection. */
export function pipelined(server: Server | TlsServer, options: Pipelining): void {
  const { serve } = options
  server.on('request', (request, response) => inTurn(request, response, serve))
  // Written before its turn, `100 Continue` would stand inside the response that is under way.
  server.on('checkContinue', (request, response) =>
    inTurn(request, response, () => {
      response.writeContinue()
      serve(request, response)
    }),
  )
  server.on('checkExpectation', (request, response) =>
    inTurn(request, response, () => {
      request.resume()
      end(request.socket, options.expectationFailed)
    }),
  )
  // Without this listener node:http closes, and the responses under way are lost.
  server.on('connect', (_request, socket: Socket) => {
    socket.on('error', options.onReset)
    // node:http has let go of the connection: nothing else reads it, or notices that the caller has left.
    socket.once('end', () => socket.destroy()).resume()
    refuseBytes(socket, options.noTunnel)
  })
}

function end(connection: Connection, refusal: string): void {
  if (!connection.writable) return
  connection.bidweirRefused = true
  connection.end(refusal)
  // Read, so that the caller gets no reset; not parsed, since the rest of a refused request would complete it.
  connection
    .removeAllListeners('data')
    .on('data', () => {})
    .resume()
  const close = setTimeout(() => connection.destroy(), linger)
  connection.once('close', () => clearTimeout(close))
}

/**
 * The bytes that came on this connection are no request, or came too late: writes `refusal`, a whole response, when all
 * responses before it are written, and closes. A request that is cut short gets `refusal` as its response, if its
 * response has not begun.
 */
export function refuseBytes(connection: Connection, refusal: string): void {
  const { bidweirNewest: newest } = connection
  // The caller has ended its side in the middle of something: it has left.
  if (connection.readableEnded) return connection.destroySoon()
  if (!connection.writable || connection.bidweirRefused) return
  connection.bidweirRefused = true
  const refuse = () => end(connection, refusal)
  if (newest === undefined) refuse()
  else if (newest.req.complete) whenFinished(newest, refuse)
  else if (newest.writableEnded) whenFinished(newest, () => connection.destroySoon())
  else if (newest.headersSent) connection.destroy()
  else if (newest.socket === null) newest.once('socket', refuse)
  else refuse()
}

function whenFinished(response: ServerResponse, then: () => void): void {
  if (response.writableFinished) then()
  else response.once('finish', then)
}
