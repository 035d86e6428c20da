/** A connection to an endpoint, as the pool uses it, and the events that a connection reports to its pool. */
import type { Socket } from 'node:net'
import type { Body, ResponseSink, UpstreamRequest } from '../types.ts'
import type { OutgoingRequest } from '../wire/outgoing-heads.ts'

export interface Connection extends UpstreamRequest {
  /**
   * `performance.now()` at which it was connected. Of a FastClient it is a whole number, as the next one: V8 keeps another one in an
   * object of its own, which would be read with each request.
   */
  readonly connectedAt: number
  /** `performance.now()` until which it may be reused while it is idle. */
  readonly reusableUntil: number
  readonly usable: boolean
  /**
   * Sends a request, once the connection is established. A connection has one request until it is released.
   *
   * @param body not changed until the response has ended
   * @param sink `fail` may be called before this method returns
   */
  dispatch(head: OutgoingRequest, body: Body, sink: ResponseSink): void
  destroy(): void
}

export interface PoolEvents {
  /** The response is complete, and the connection may be used for another request. */
  released(connection: Connection, now: number): void
  /** A connection was opened in place of another. */
  added(connection: Connection): void
  /** The connection is closed. */
  removed(connection: Connection): void
  /** Connecting to this address has failed. */
  connectFailed(address: string): void
}

/**
 * Milliseconds. If a request is cancelled while its connection is not established after this time, the address counts as
 * failed. A round trip takes less. An earlier cancellation, after a very short tmax, says nothing about the address.
 */
export const silentConnectMs = 50

/** Milliseconds; shorter than the idle timeout of servers (nginx 75 s, Node 5 s, Apache 5 s). */
export const idleTimeout = 4000
/** A connection is not reused in the last 2 s of its `Keep-Alive: timeout`: the server's close could cross a request. */
const hintMargin = 2000

/** Milliseconds that a connection may be idle. `hint`: the server's `Keep-Alive: timeout`, in milliseconds. */
export function reuseTime(hint: number): number {
  return Math.max(0, Math.min(idleTimeout, hint - hintMargin))
}

/**
 * Returns a connection to its pool after a complete response, if its request is written. After an early response, the
 * unwritten rest of the request would be read as the next request: the connection is closed.
 *
 * The callback of a TLS write comes in a turn of the event loop of its own, and a response may come before it.
 */
export function releaseWritten(
  connection: Connection,
  socket: Socket,
  pool: PoolEvents,
  now: number,
): void {
  if (socket.writableLength === 0) return pool.released(connection, now)
  setImmediate(() => {
    if (connection.usable && socket.writableLength === 0)
      pool.released(connection, performance.now())
    else connection.destroy()
  })
}
