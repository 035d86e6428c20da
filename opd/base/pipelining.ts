/**
 * Pipelining on a connection of node:http, for both listeners. The requests of one connection are served one at a time:
 * RFC 9112 9.3.2 allows only safe methods to be served in parallel, and a bid is a POST. So a request behind a response
 * that ends the connection is never started, and nothing is written into the response of another request.
 */

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { getOrAdd } from './get-or-add.ts'

/** Header lists in the form of node:http: `[name, value, name, value, …]`, in the order received. */

/**
 * The number of fields with this name, given in lower case.
 *
 * @param raw a flat list of names and values, as received
 */
export function occurrences(raw: readonly string[], name: string): number {
  let count = 0
  for (let index = 0; index < raw.length; index += 2)
    if (raw[index]!.length === name.length && raw[index]!.toLowerCase() === name) count++
  return count
}

interface Pipeline {
  /** The response to the newest request that was accepted. */
  newest: ServerResponse | null
  /** Requests that wait until the response before theirs is finished. */
  waiting: number
  /** The bytes behind the newest request are refused: no request after it is accepted. */
  refused: boolean
  /** The newest request is the last one that is accepted. */
  last: boolean
  /** Requests after the last one. They are parsed, because they came with it, and get no response. */
  unanswered: number
}

const pipelines = new WeakMap<Socket, Pipeline>()

const pipelineOf = (connection: Socket): Pipeline =>
  getOrAdd(pipelines, connection, () => ({
    newest: null,
    waiting: 0,
    refused: false,
    last: false,
    unanswered: 0,
  }))

type Handler = (request: IncomingMessage, response: ServerResponse) => void

interface Pipelining {
  /** Serves a request; its response may be written at once. */
  serve: Handler
  /** Whole responses, as bytes, to an expectation that is not known, and to CONNECT. */
  expectationFailed: string
  noTunnel: string
  /** A connection failed after its CONNECT. */
  onReset(): void
}

/** Requests of one connection that may wait: the response to the last one ends the connection. */
const maxWaiting = 256
/** A connection that sends more requests after its last one is destroyed. */
const maxUnanswered = 1024
/** Milliseconds that a caller may go on sending before it reads its refusal. */
const linger = 1000

/**
 * The connection of a response, also when the response has none any more.
 *
 * @param response of a server of this process
 */
export const connectionOf = (response: ServerResponse): Socket => response.req.socket

/**
 * The response to the newest request that was accepted on this connection.
 *
 * @param connection of a server that is `pipelined`; null before its first request
 */
export const newestResponse = (connection: Socket): ServerResponse | null =>
  pipelines.get(connection)?.newest ?? null

/**
 * Whether all requests of the connection have their responses, and another one is accepted.
 *
 * @param connection of a server that is `pipelined`
 */
export function isIdle(connection: Socket): boolean {
  const { newest, refused, last } = pipelineOf(connection)
  return connection.writable && !refused && !last && (newest === null || newest.writableFinished)
}

/** As llhttp reads it. */
const offersUpgrade = (headers: IncomingMessage['headers']) =>
  headers.upgrade !== undefined &&
  /upgrade/i.test(`${headers.connection} ${headers['proxy-connection']}`)

/** Calls `serve` when the response may be written: at once, or when the response before it is finished. */
function inOrder(request: IncomingMessage, response: ServerResponse, serve: Handler): void {
  const connection = request.socket
  const pipeline = pipelineOf(connection)
  if (pipeline.last && ++pipeline.unanswered > maxUnanswered) return void connection.destroy()
  if (!connection.writable || pipeline.refused || pipeline.last) return void request.resume()
  pipeline.newest = response
  // node:http drops bytes that arrived with it and behind it: what follows them is not the beginning of a request.
  // Beyond the limit, the responses say which requests were served.
  if (offersUpgrade(request.headers) || pipeline.waiting >= maxWaiting) {
    pipeline.last = true
    response.shouldKeepAlive = false
  }
  // node:http assigns the connection to one response at a time.
  if (response.socket !== null) return serve(request, response)
  pipeline.waiting++
  response.once('socket', () =>
    process.nextTick(() => {
      pipeline.waiting--
      if (connection.writable) serve(request, response)
    }),
  )
}

/**
 * Serves the requests of `server` one at a time on each connection.
 *
 * @param server must have no listener of requests yet
 * @param options its limits and what serves a request
 */
export function pipelined(server: Server | TlsServer, options: Pipelining): void {
  const { serve } = options
  server.on('request', (request, response) => inOrder(request, response, serve))
  // Written earlier, `100 Continue` would be inside the response that is under way.
  server.on('checkContinue', (request, response) =>
    inOrder(request, response, () => {
      response.writeContinue()
      serve(request, response)
    }),
  )
  server.on('checkExpectation', (request, response) =>
    inOrder(request, response, () => {
      request.resume()
      end(request.socket, options.expectationFailed)
    }),
  )
  // Without this listener node:http closes the connection, and the responses under way are lost.
  server.on('connect', (_request, socket: Socket) => {
    socket.on('error', options.onReset)
    // node:http has detached its parser: without a reader, the end of the connection is not noticed.
    socket.once('end', () => socket.destroy()).resume()
    refuseBytes(socket, options.noTunnel)
  })
}

function end(connection: Socket, refusal: string): void {
  if (!connection.writable) return
  pipelineOf(connection).refused = true
  connection.end(refusal)
  // The rest is read, so that the caller gets no reset, but not parsed: it would complete the refused request.
  connection
    .removeAllListeners('data')
    .on('data', () => {})
    .resume()
  const close = setTimeout(() => connection.destroy(), linger)
  connection.once('close', () => clearTimeout(close))
}

/**
 * Refuses bytes that are not a request, or that came too late: writes `refusal`, a whole response, when all responses
 * before it are written, and closes. A request that is cut short gets `refusal` as its response, if its response has
 * not begun.
 *
 * @param connection of a server that is `pipelined`
 * @param refusal head and body, as they are written
 */
export function refuseBytes(connection: Socket, refusal: string): void {
  const pipeline = pipelineOf(connection)
  const { newest } = pipeline
  // The caller has ended its side within a request: it has left.
  if (connection.readableEnded) return connection.destroySoon()
  if (!connection.writable || pipeline.refused) return
  pipeline.refused = true
  const refuse = () => end(connection, refusal)
  if (newest === null) refuse()
  else if (newest.req.complete) whenFinished(newest, refuse)
  else if (newest.writableEnded) whenFinished(newest, () => connection.destroySoon())
  else if (newest.headersSent) connection.destroy()
  else if (newest.socket === null) newest.once('socket', refuse)
  else refuse()
}

function whenFinished(response: ServerResponse, callback: () => void): void {
  if (response.writableFinished) callback()
  else response.once('finish', callback)
}
