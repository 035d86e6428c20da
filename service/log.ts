/** Structured logs by pino. Tokens, contexts and keys are redacted. */
import pino from 'pino'
import type { Log } from '../opd/base/log.ts'

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

/** `fields` are part of each line. */
export function createLog(level: string, fields: object | null = null): Log {
  return pino(
    {
      level,
      base: fields as Record<string, unknown> | null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: secrets.flatMap((name) => [name, `*.${name}`]), censor: '[redacted]' },
    },
    pino.destination({ fd: 2, sync: true }),
  )
}
