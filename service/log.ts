/** Structured logs by pino. Tokens, contexts and keys are redacted. */
import pino from 'pino'
import type { Log } from '../opd/shared/log.ts'

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

export function createLog(level: string): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: secrets.flatMap((name) => [name, `*.${name}`]), censor: '[redacted]' },
    },
    pino.destination({ fd: 2, sync: true }),
  )
}
