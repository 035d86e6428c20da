/** Metrics that alerts compare with limits: those of OPD, of certificates, of the disk, of PostgreSQL and of traces. */
import { statfs } from 'node:fs/promises'
import type { Registry } from 'prom-client'
import type { DatabaseConnections } from '../admin/store/index.ts'
import type { Log } from '../opd/base/log.ts'
import { byName, counter, gauge, one, registerRows } from '../opd/base/metrics.ts'
import { certificatesOf } from '../opd/base/tls-pair.ts'
import type { OpdLimit } from './opd-state.ts'
import { type SpanCounts, spanResults } from './tracing/exporter.ts'

/** The file system of stateDir, in bytes. */
export interface Disk {
  free: number
  size: number
}

interface ListenerTls {
  cert: string
  clientCa?: string | undefined
}

interface OperationParts {
  /** Of each supplier whose bids OPD prices. */
  opdLimits: () => Iterable<OpdLimit>
  /** `proxy.tls` in use; undefined: the listener has none. */
  listenerTls: () => ListenerTls | undefined
  stateDir: string
  /** null: SQLite. */
  connections: () => Promise<DatabaseConnections | null>
  spans: SpanCounts
  log: Log
}

/**
 * The result of the last run. A scrape waits for none: each call of `next` returns the result before, and starts a run
 * unless one has not ended. null: no run has ended, or the last one failed; the first failure of several is reported.
 */
class LastResult<T> {
  private result: T | null = null
  private isRunning = false
  private hasFailed = false
  private readonly run: () => Promise<T | null>
  private readonly onError: (error: Error) => void

  constructor(run: () => Promise<T | null>, onError: (error: Error) => void) {
    this.run = run
    this.onError = onError
  }

  next(): T | null {
    if (!this.isRunning) void this.start()
    return this.result
  }

  private async start(): Promise<void> {
    this.isRunning = true
    try {
      this.result = await this.run()
      this.hasFailed = false
    } catch (error) {
      this.result = null
      if (!this.hasFailed) this.onError(error as Error)
      this.hasFailed = true
    } finally {
      this.isRunning = false
    }
  }
}

/** Seconds since the epoch at which the first certificate of a text in PEM expires; a text is parsed once. */
class ExpiryOfText {
  private text = ''
  private seconds = 0

  expiryOf(text: string): number {
    if (text !== this.text) {
      const expiries = certificatesOf(text).map(({ validTo }) => Date.parse(validTo))
      this.seconds = Math.min(...expiries) / 1000
      this.text = text
    }
    return this.seconds
  }
}

/** Returns what reads the disk, as it was at the call before; null: not known. */
export function bindOperationMetrics(
  registry: Registry,
  parts: OperationParts,
): { disk: () => Disk | null } {
  const { opdLimits, listenerTls, stateDir, connections, log } = parts
  const expiry = { server: new ExpiryOfText(), clientCa: new ExpiryOfText() }
  const disk = new LastResult(
    async () => {
      const { bavail, blocks, bsize } = await statfs(stateDir)
      return { free: bavail * bsize, size: blocks * bsize }
    },
    ({ message }) => log.warn({ err: message, stateDir }, 'the disk of stateDir was not read'),
  )
  const database = new LastResult(connections, ({ message }) =>
    log.warn({ err: message }, 'the connections of PostgreSQL were not counted'),
  )
  const sampleOf = (value: number | undefined) => (value === undefined ? [] : one(value))
  registerRows(registry, [
    counter(
      'bidweir_spans_total',
      'Spans by result: exported, refused (by the collector), dropped (4,096 of a process waited), limited (callers traced more than 100 requests a second)',
      () => byName('result', spanResults, (result) => parts.spans[result]),
    ),
    gauge(
      'bidweir_opd_limit',
      'Limits of OPD for a supplier, by kind: opd.minWinRate and opd.minSpend, relative to the holdout; absent while OPD is off',
      function* () {
        for (const { supplier, kind, limit } of opdLimits())
          yield { value: limit, labels: { ssp: supplier, kind } }
      },
    ),
    gauge(
      'bidweir_listener_certificate_expiry_timestamp_seconds',
      'Time at which a certificate of `proxy.tls` expires, by certificate: the first of server (cert) or client_ca (clientCa)',
      function* () {
        const tls = listenerTls()
        if (tls === undefined) return
        yield { value: expiry.server.expiryOf(tls.cert), labels: { certificate: 'server' } }
        if (tls.clientCa !== undefined)
          yield {
            value: expiry.clientCa.expiryOf(tls.clientCa),
            labels: { certificate: 'client_ca' },
          }
      },
    ),
    gauge(
      'bidweir_state_free_bytes',
      'Bytes that can be written to the file system of stateDir, as read at the scrape before',
      () => sampleOf(disk.next()?.free),
    ),
    gauge(
      'bidweir_state_size_bytes',
      'Size of the file system of stateDir, as read at the scrape before',
      () => sampleOf(disk.next()?.size),
    ),
    gauge(
      'bidweir_postgres_connections',
      'Connections of all clients of the PostgreSQL server, as counted at the scrape before; absent with SQLite',
      () => sampleOf(database.next()?.used),
    ),
    gauge(
      'bidweir_postgres_connections_limit',
      'max_connections of the PostgreSQL server, less the reserved ones; absent with SQLite',
      () => sampleOf(database.next()?.limit),
    ),
  ])
  return { disk: () => disk.next() }
}
