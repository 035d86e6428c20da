/** The log of one endpoint: each change of its state is logged once, not once a request (CONTRACT 3). */

import type { Log } from '../../opd/base/log.ts'
import type { Body } from '../../opd/json/scanner.ts'
import { requestIdOf } from '../../opd/protobuf/request-id.ts'

/**
 * `unhealthy`: it fails its health checks. `out`: an operator has ejected it. All but `up` and `failing` get no requests. The
 * order is that of their weight where processes or nodes differ.
 */
export const endpointStates = ['up', 'failing', 'ejected', 'unhealthy', 'out'] as const
export type EndpointState = (typeof endpointStates)[number]

/** Why a request failed: the error of its connection, its deadline, or the status of its response. `slow`: all are too late. */
export type Failure = Error | 'timeout' | 'slow' | number

/**
 * Milliseconds after a recovery in which only a worse state than before it is logged; doubled after each recovery, up to the
 * maximum. An endpoint that fails and recovers again and again would otherwise fill the log.
 */
const firstPause = 10_000
const maxPause = 600_000

/** The system's errors for a node that has no more file descriptors, ports or memory for sockets. They are no fault of a supplier. */
const localFaults: ReadonlySet<string> = new Set([
  ...['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS', 'ENOMEM'],
])
/** Milliseconds between two lines about them, of all endpoints. */
const localFaultPause = 60_000

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  UND_ERR_SOCKET: 'reset',
  ENOTFOUND: 'unresolved',
  EAI_AGAIN: 'unresolved',
}

function describeFailure(failure: Failure): { reason: string; status?: number; err?: string } {
  if (typeof failure === 'string') return { reason: failure }
  if (typeof failure === 'number') return { reason: 'status', status: failure }
  const code = (failure as NodeJS.ErrnoException).code ?? ''
  return { reason: reasons[code] ?? 'broken', err: failure.message }
}

/** Whether this node could not open a connection, whatever the endpoint does. */
export function isLocalFault(failure: Failure): boolean {
  return failure instanceof Error && localFaults.has((failure as NodeJS.ErrnoException).code ?? '')
}

/** The failure in a few words. */
export function failureText(failure: Failure): string {
  const { reason, status, err } = describeFailure(failure)
  return status === undefined ? (err ?? reason) : `${reason} ${status}`
}

export class EndpointLog {
  /** When one of all endpoints logged a local fault. */
  private static localFaultAt = Number.NEGATIVE_INFINITY
  private readonly log: Log
  private readonly ssp: string
  private readonly endpoint: string
  private logged: EndpointState = 'up'
  /** Rank of the worst state that was logged since the last one outside of a pause. */
  private worst = 0
  private pause = firstPause
  private pausedUntil = 0

  constructor(log: Log, ssp: string, endpoint: string) {
    const url = new URL(endpoint)
    this.log = log
    this.ssp = ssp
    this.endpoint = url.origin + url.pathname
  }

  /** `request`: the body of the request that failed; its id is logged if it can be read. */
  failed(state: EndpointState, failure: Failure, now: number, request: Body): void {
    if (state === this.logged) return
    const rank = endpointStates.indexOf(state)
    const isPaused = now < this.pausedUntil
    if (isPaused && rank <= this.worst) return
    if (now - this.pausedUntil > maxPause) this.pause = firstPause
    this.worst = isPaused ? rank : Math.max(rank, this.logged === 'up' ? 0 : this.worst)
    this.logged = state
    const { ssp, endpoint } = this
    const fields = {
      ssp,
      endpoint,
      state,
      request: requestIdOf(request),
      ...describeFailure(failure),
    }
    this.log.warn(fields, `an endpoint is ${state}`)
  }

  /** This node could not open a connection: logged once a minute, for all endpoints. */
  failedLocally(failure: Failure, now: number): void {
    if (now - EndpointLog.localFaultAt < localFaultPause) return
    EndpointLog.localFaultAt = now
    const { ssp, endpoint } = this
    const fields = { ssp, endpoint, err: failureText(failure) }
    this.log.error(
      fields,
      'this node has no file descriptors or ports for connections to endpoints',
    )
  }

  /** A health check or an operator has changed the state. `fields`: why. */
  changed(state: EndpointState, fields: object): void {
    const { ssp, endpoint } = this
    this.logged = state
    const level = state === 'up' ? 'info' : 'warn'
    const words = state === 'up' ? 'up again' : state
    this.log[level]({ ssp, endpoint, state, ...fields }, `an endpoint is ${words}`)
  }

  recovered(now: number): void {
    if (this.logged === 'up') return
    this.logged = 'up'
    this.pausedUntil = now + this.pause
    this.pause = Math.min(maxPause, this.pause * 2)
    const { ssp, endpoint } = this
    this.log.info({ ssp, endpoint, state: 'up' }, 'an endpoint is up again')
  }
}
