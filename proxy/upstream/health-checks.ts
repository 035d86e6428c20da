/**
 * Active health checks of the endpoints of one supplier. A check takes the way of a bid request: the connections of the
 * endpoint, its TLS, the headers that the supplier sets. It passes no limit, and its response is thrown away.
 */
import type { ResponseHead, ResponseSink, SendFailure } from '../types.ts'
import type { ConfiguredHeaders } from '../wire/configured-headers.ts'
import { OutgoingRequest, RequestStart } from '../wire/outgoing-heads.ts'
import type { HealthCheckConfig } from './config.ts'
import type { Connection } from './connection.ts'
import { isLocalFault } from './endpoint-log.ts'
import type { Endpoint } from './endpoints.ts'

/** null: the check succeeded; undefined: this node could not send it; otherwise what it met. */
type Result = string | null | undefined

/** Part of the interval by which each check is earlier or later, so that checks of many nodes and endpoints spread. */
const jitter = 0.1

const isWanted = (status: number, wanted: HealthCheckConfig['statuses']) =>
  wanted.some((range) => {
    if (typeof range === 'number') return status === range
    const [from, to] = range.split('-').map(Number) as [number, number]
    return status >= from && status <= to
  })

/** One request of a check. It calls `done` once. */
class CheckRequest implements ResponseSink {
  private status = 0
  private connection: Connection | null = null
  private readonly timer: NodeJS.Timeout
  private readonly check: EndpointCheck
  private readonly timeout: number
  private readonly done: (result: Result) => void

  constructor(check: EndpointCheck, timeout: number, done: (result: Result) => void) {
    this.check = check
    this.timeout = timeout
    this.done = done
    this.timer = setTimeout(() => this.expire(), timeout).unref()
  }

  send(fresh: boolean): void {
    const { endpoint, request, body } = this.check
    const connection = endpoint.pool.acquire(fresh, performance.now())
    this.connection = connection
    connection.dispatch(request, body, this)
  }

  head({ status }: ResponseHead): void {
    this.status = status
  }

  data(): boolean {
    return true
  }

  end(): void {
    const { status, check } = this
    this.finish(isWanted(status, check.config.statuses) ? null : `status ${status}`)
  }

  fail({ kind, error }: SendFailure): void {
    // The endpoint has closed an idle connection, which is no fault.
    if (kind === 'reused') return this.send(true)
    if (!isLocalFault(error)) return this.finish(error.message)
    this.check.endpoint.log.failedLocally(error, performance.now())
    this.finish(undefined)
  }

  private expire(): void {
    this.cancel()
    this.done(`no response within ${this.timeout} ms`)
  }

  private finish(result: Result): void {
    clearTimeout(this.timer)
    this.connection = null
    this.done(result)
  }

  cancel(): void {
    clearTimeout(this.timer)
    this.connection?.abort()
    this.connection = null
  }
}

/** The checks of one endpoint, one after another. */
class EndpointCheck {
  readonly endpoint: Endpoint
  readonly config: HealthCheckConfig
  readonly request: OutgoingRequest
  readonly body: string
  private readonly report: (result: Result) => void
  private timer: NodeJS.Timeout
  private running: CheckRequest | null = null

  constructor(
    endpoint: Endpoint,
    config: HealthCheckConfig,
    rules: ConfiguredHeaders | null,
    report: (result: Result) => void,
  ) {
    const { body = '', interval } = config
    this.endpoint = endpoint
    this.config = config
    this.report = report
    this.body = bytesText(typeof body === 'string' ? body : JSON.stringify(body))
    const type = this.body === '' ? [] : ['Content-Type', 'application/json']
    const fields = ['Host', endpoint.host, 'User-Agent', 'bidweir-health-check', ...type]
    const method = config.method ?? (this.body === '' ? 'GET' : 'POST')
    const path = config.path ?? endpoint.path
    this.request = new OutgoingRequest(
      new RequestStart(path, rules?.apply(fields) ?? fields, method),
    )
    this.timer = this.after(interval * Math.random())
  }

  private after(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.run(), ms).unref()
  }

  private run(): void {
    const { timeout, interval } = this.config
    const began = performance.now()
    const request = new CheckRequest(this, timeout, (result) => {
      this.running = null
      const spread = interval * (1 - jitter + 2 * jitter * Math.random())
      this.timer = this.after(Math.max(0, spread - (performance.now() - began)))
      this.report(result)
    })
    this.running = request
    request.send(false)
  }

  close(): void {
    clearTimeout(this.timer)
    this.running?.cancel()
  }
}

/** Bodies are text of one byte a character, as bid requests of the fast lane are. */
const bytesText = (text: string) => Buffer.from(text).toString('latin1')

/** Sends health checks to the endpoints of a supplier. */
export class HealthChecks {
  private checks: EndpointCheck[] = []
  private configured = ''
  private readonly counts: { checks: number; failedChecks: number }
  private readonly changed: (endpoint: Endpoint, fault: string | null) => void

  /**
   * @param counts increased with each check
   * @param changed called when an endpoint has failed its checks, and when it passes them again
   */
  constructor(
    counts: { checks: number; failedChecks: number },
    changed: (endpoint: Endpoint, fault: string | null) => void,
  ) {
    this.counts = counts
    this.changed = changed
  }

  /** @param config undefined: there are no checks */
  configure(
    endpoints: readonly Endpoint[],
    config: HealthCheckConfig | undefined,
    rules: ConfiguredHeaders | null,
  ): void {
    const known = new Set(this.checks.map(({ endpoint }) => endpoint))
    const text = JSON.stringify([config ?? null, rules])
    const same =
      endpoints.length === known.size && endpoints.every((endpoint) => known.has(endpoint))
    if (same && text === this.configured) return
    this.close()
    this.configured = text
    if (config === undefined) {
      for (const endpoint of endpoints)
        if (endpoint.unhealthy !== null) this.changed(endpoint, null)
      return
    }
    this.checks = endpoints.map((endpoint) => {
      const tally = new Tally(config, endpoint.unhealthy !== null)
      return new EndpointCheck(endpoint, config, rules, (result) => {
        if (result === undefined) return
        this.counts.checks++
        if (result !== null) this.counts.failedChecks++
        if (tally.turns(result === null)) this.changed(endpoint, result)
      })
    })
  }

  close(): void {
    for (const check of this.checks) check.close()
    this.checks = []
  }
}

/** Counts results in a row. */
class Tally {
  private readonly config: HealthCheckConfig
  private unhealthy: boolean
  private contrary = 0

  constructor(config: HealthCheckConfig, unhealthy: boolean) {
    this.config = config
    this.unhealthy = unhealthy
  }

  /** Whether this result changes the health of the endpoint. */
  turns(ok: boolean): boolean {
    const { healthyAfter, unhealthyAfter } = this.config
    this.contrary = ok === this.unhealthy ? this.contrary + 1 : 0
    if (this.contrary < (this.unhealthy ? healthyAfter : unhealthyAfter)) return false
    this.unhealthy = !this.unhealthy
    this.contrary = 0
    return true
  }
}
