/** The log of one supplier's endpoints: each change of a state once, however many requests see it (CONTRACT 3). */
import type { Log } from '../../opd/shared/log.ts'

export type EndpointState = 'up' | 'failing' | 'ejected'

/** Why a request failed: the error of its connection, its deadline, or the status of its answer. */
export type Failure = Error | 'timeout' | number

/**
 * Milliseconds after a recovery in which nothing is logged, twice as long after each one up to the longest: an
 * endpoint that comes and goes would fill the log.
 */
const firstQuiet = 10_000
const longestQuiet = 600_000

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  UND_ERR_SOCKET: 'reset',
  ENOTFOUND: 'unresolved',
  EAI_AGAIN: 'unresolved',
}

function described(failure: Failure): { reason: string; status?: number; err?: string } {
  if (failure === 'timeout') return { reason: 'timeout' }
  if (typeof failure === 'number') return { reason: 'status', status: failure }
  const code = (failure as NodeJS.ErrnoException).code ?? ''
  return { reason: reasons[code] ?? 'broken', err: failure.message }
}

export class EndpointLog {
  private readonly log: Log
  private readonly ssp: string
  private readonly endpoint: string
  private logged: EndpointState = 'up'
  private quiet = firstQuiet
  private quietUntil = 0

  constructor(log: Log, ssp: string, endpoint: string) {
    const url = new URL(endpoint)
    this.log = log
    this.ssp = ssp
    this.endpoint = url.origin + url.pathname
  }

  failed(state: EndpointState, failure: Failure, now: number): void {
    if (state === this.logged || now < this.quietUntil) return
    if (now - this.quietUntil > longestQuiet) this.quiet = firstQuiet
    this.logged = state
    const { ssp, endpoint } = this
    this.log.warn({ ssp, endpoint, state, ...described(failure) }, `an endpoint is ${state}`)
  }

  recovered(now: number): void {
    if (this.logged === 'up') return
    this.logged = 'up'
    this.quietUntil = now + this.quiet
    this.quiet = Math.min(longestQuiet, this.quiet * 2)
    const { ssp, endpoint } = this
    this.log.info({ ssp, endpoint, state: 'up' }, 'an endpoint is up again')
  }
}
