/** Structured logs by pino, JSON lines on stderr. Tokens, contexts and keys are redacted. */
import { Worker } from 'node:worker_threads'
import pino from 'pino'
import type { Log } from '../../opd/base/log.ts'
import type { LogLevel } from './levels.ts'
import { LineRing } from './line-ring.ts'

const secrets = [
  'authorization',
  'password',
  'token',
  'access_token',
  'refresh_token',
  'svc_opd',
  'secret',
  'keys',
]

/** Milliseconds that the end of the process waits for a reader of the log that does not read. */
const longestEnd = 2000

const loggerOf = (level: string, fields: object | null, destination: pino.DestinationStream) =>
  pino(
    {
      level,
      base: fields as Record<string, unknown> | null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: secrets.flatMap((name) => [name, `*.${name}`]), censor: '[redacted]' },
    },
    destination,
  )

/**
 * The log of a command. It is written at once.
 *
 * @param level the least severe level that is written
 */
export const createLog = (level: LogLevel): Log =>
  loggerOf(level, null, pino.destination({ fd: 2, sync: true }))

/** The log of a process of the service: a thread writes it. */
export class ServiceLog implements Log {
  /** Lines that were dropped because too many waited to be written. */
  dropped = 0
  readonly ring = new LineRing()
  /** Part of each line. */
  readonly fields: object | null
  private readonly logger: pino.Logger

  constructor(level: LogLevel, fields: object | null = null) {
    this.fields = fields
    this.logger = loggerOf(level, fields, {
      write: (line) => {
        if (!this.ring.addLine(line)) this.dropped++
      },
    })
    const name = import.meta.url.endsWith('.ts') ? './writer-thread.ts' : './writer-thread.js'
    const thread = new Worker(new URL(name, import.meta.url), {
      workerData: this.ring.memory,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
    })
    thread.unref()
    // Also after an exception that nothing caught, and while the thread is not loaded yet.
    process.on('exit', () => this.flush())
  }

  /** The lowest level that is logged. */
  get level(): LogLevel {
    return this.logger.level as LogLevel
  }

  set level(level: LogLevel) {
    this.logger.level = level
  }

  info(fields: object, message: string): void {
    this.logger.info(fields, message)
  }

  warn(fields: object, message: string): void {
    this.logger.warn(fields, message)
  }

  error(fields: object, message: string): void {
    this.logger.error(fields, message)
  }

  /** Returns when all lines are written. */
  flush(): void {
    this.ring.drain(2, longestEnd)
  }
}
