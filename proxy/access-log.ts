/**
 * The access log: one JSON line for each bid request that is selected. It has the names of Envoy's access log, and no query,
 * header or body, so that it identifies no user. Lines wait in a bounded buffer, and are written by the threads of libuv.
 */
import sonicBoom from 'sonic-boom'
import * as z from 'zod'
import { atMost } from '../opd/base/at-most.ts'
import type { Log } from '../opd/base/log.ts'
import { duration } from '../opd/base/units.ts'
import type { RequestOutcome } from './metrics.ts'

export const accessLogSchema = z.strictObject({
  path: z
    .string()
    .min(1)
    .default('stdout')
    .describe('File of the access log, or stdout. SIGHUP and each reload open the file again.'),
  format: z.literal('json').default('json').describe('One JSON object a line.'),
  share: z.number().min(0).max(1).default(0.01).describe('Share of requests that are logged.'),
  errors: z
    .enum(['always', 'share'])
    .default('always')
    .describe(
      'Whether all requests that failed are logged: timeout, upstream_error, overload, unreadable, slow_request, refused, and responses of the supplier from 500 on.',
    ),
  slow: duration('100ms')
    .optional()
    .describe('Requests that take at least this long are all logged. Default: only their share.'),
  suppliers: z
    .array(z.string())
    .max(10_000)
    .default([])
    .describe('Ids of the suppliers whose requests are logged. Empty: all.'),
  addresses: z
    .boolean()
    .default(false)
    .describe('Whether lines contain the address of the caller, as downstream_remote_address.'),
})

export type AccessLogConfig = z.infer<typeof accessLogSchema>

/** A request that ended. Times are milliseconds. */
export interface FinishedRequest {
  ssp: string
  outcome: RequestOutcome
  method: string
  /** Without its query, which may identify a user. */
  path: string
  /** 0: the caller has no response. */
  status: number
  protocol: string
  remote: string
  received: number
  sent: number
  durationMs: number
  /** Its last attempt; null: it was not sent. */
  upstream: { host: string; durationMs: number } | null
}

/** Envoy's flags; `-`: none. */
const flags: Readonly<Record<RequestOutcome, string>> = {
  answer: '-',
  no_bid: '-',
  inactive: 'UH',
  qps: 'RL',
  unreadable: 'UPE',
  overload: 'UO',
  timeout: 'UT',
  upstream_error: 'UC',
  client_abort: 'DC',
  slow_request: 'SI',
  refused: 'UAEX',
}

const failures: ReadonlySet<RequestOutcome> = new Set<RequestOutcome>([
  ...(['unreadable', 'overload', 'timeout', 'upstream_error'] as const),
  ...(['slow_request', 'refused'] as const),
])

/** Bytes in the buffer: further lines are dropped. Bytes of a write, and milliseconds until one without as many. */
const maxBuffer = 4 * 1024 * 1024
const minWrite = 8 * 1024
const flushEvery = 1000
/** Lines a second for failed and slow requests: an outage must not become a flood. */
const maxSelected = 1000

/** Milliseconds that a drain waits for the last lines. */
const closeWait = 1000

/** Lines, by what became of them. `limited`: beyond the limit of a second. */
type LineCounts = Map<string, number>

/** A file, or stdout. Bytes that could not be written are tried again with the next ones. */
class Output {
  readonly path: string
  private readonly stream: sonicBoom.SonicBoom
  private failing = false

  constructor(path: string, log: Log, onDropped: () => void) {
    this.path = path
    const target = path === 'stdout' ? { fd: 1 } : { dest: path, mode: 0o600 }
    const buffered = { maxLength: maxBuffer, minLength: minWrite, periodicFlush: flushEvery }
    this.stream = new sonicBoom.SonicBoom({ ...target, ...buffered, sync: false })
    this.stream.on('drop', onDropped)
    this.stream.on('write', () => {
      this.failing = false
    })
    this.stream.on('error', (error: Error) => {
      const { failing } = this
      this.failing = true
      if (!failing) log.error({ path, err: error.message }, 'the access log cannot be written')
    })
  }

  write(line: string): void {
    this.stream.write(line)
  }

  /** After a rotation, writes to the new file. */
  reopen(): void {
    if (this.path !== 'stdout') this.stream.reopen()
  }

  /** Resolves when everything is written, or cannot be in time. */
  async close(): Promise<void> {
    if (this.failing) return this.stream.destroy()
    const closed = new Promise<void>((resolve) => this.stream.once('close', resolve))
    this.stream.end()
    await atMost(closeWait, closed)
  }
}

/** Writes a line for each bid request, and drops lines that do not fit in its buffer. */
export class AccessLog {
  private config: AccessLogConfig
  private suppliers: ReadonlySet<string>
  private output: Output
  private readonly log: Log
  private readonly counts: LineCounts
  private second = 0
  private selectedInSecond = 0

  /** @param counts outlives the log */
  constructor(config: AccessLogConfig, log: Log, counts: LineCounts) {
    this.config = config
    this.log = log
    this.counts = counts
    this.suppliers = new Set(config.suppliers)
    this.output = this.open(config.path)
  }

  private open(path: string): Output {
    return new Output(path, this.log, () => this.count('dropped', 1))
  }

  /** At each reload: opens the file again, or another one. */
  configure(config: AccessLogConfig): void {
    const { path } = this.output
    this.config = config
    this.suppliers = new Set(config.suppliers)
    if (config.path === path) return this.output.reopen()
    void this.output.close()
    this.output = this.open(config.path)
  }

  /**
   * Whether a request is logged. Asked once, when it ends, before its line is made: the answer may be random, and counts towards
   * the limit of failed and slow requests a second.
   *
   * @param ssp identifier of the supplier
   * @param status of the response to the caller; 0: the caller has none
   * @param durationMs milliseconds since the head arrived
   */
  selects(ssp: string, outcome: RequestOutcome, status: number, durationMs: number): boolean {
    const { share, errors, slow } = this.config
    if (this.suppliers.size > 0 && !this.suppliers.has(ssp)) return false
    if (share === 1 || (share > 0 && Math.random() < share)) return true
    const isFailure = failures.has(outcome) || status >= 500
    const isSelected =
      (isFailure && errors === 'always') || (slow !== undefined && durationMs >= slow)
    return isSelected && this.isWithinLimit()
  }

  private isWithinLimit(): boolean {
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.second) {
      this.second = second
      this.selectedInSecond = 0
    }
    this.selectedInSecond++
    if (this.selectedInSecond <= maxSelected) return true
    this.count('limited', 1)
    return false
  }

  /** @param request one that `selects` has selected */
  write(request: FinishedRequest): void {
    const { durationMs, upstream } = request
    this.count('written', 1)
    this.output.write(
      `${JSON.stringify({
        start_time: new Date(Date.now() - durationMs).toISOString(),
        ...{ method: request.method, path: request.path, protocol: request.protocol },
        response_code: request.status,
        response_flags: flags[request.outcome],
        response_code_details: request.outcome,
        ...{ bytes_received: request.received, bytes_sent: request.sent },
        duration: milliseconds(durationMs),
        upstream_cluster: request.ssp,
        upstream_host: upstream?.host ?? null,
        upstream_service_time: upstream === null ? null : milliseconds(upstream.durationMs),
        ...(this.config.addresses ? { downstream_remote_address: request.remote } : {}),
      })}\n`,
    )
  }

  private count(result: string, lines: number): void {
    this.counts.set(result, (this.counts.get(result) ?? 0) + lines)
  }

  close(): Promise<void> {
    return this.output.close()
  }
}

/** Rounded to microseconds. */
const milliseconds = (ms: number) => Math.round(ms * 1000) / 1000
