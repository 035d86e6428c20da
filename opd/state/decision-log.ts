/** The decision log: NDJSON, a line a decision and a line a win, buffered off the hot path, rotated by size. */
import { open, rename, stat, unlink } from 'node:fs/promises'
import type { DecisionEntry, DecisionSink } from '../ports.ts'
import type { DecisionLogConfig } from './config.ts'

/** Lines that wait for the disk; beyond, they are dropped (counted). */
const maxWaiting = 50_000
const flushEvery = 200

export interface DecisionLog extends DecisionSink {
  readonly counts: { written: number; dropped: number; failed: number }
  flush(): Promise<void>
  close(): Promise<void>
}

export function createDecisionLog(
  config: DecisionLogConfig,
  log: { error(fields: object, message: string): void },
): DecisionLog {
  const { path, maxBytes, keep } = config
  const counts = { written: 0, dropped: 0, failed: 0 }
  let waiting: object[] = []
  let failing = false

  async function rotate(): Promise<void> {
    await unlink(`${path}.${keep}`).catch(absent)
    for (let n = keep - 1; n >= 1; n--)
      await rename(`${path}.${n}`, `${path}.${n + 1}`).catch(absent)
    await rename(path, `${path}.1`)
  }

  async function write(lines: object[]): Promise<void> {
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
    const size = await stat(path).then(
      ({ size }) => size,
      () => 0,
    )
    if (size > 0 && size + text.length > maxBytes) await rotate()
    const handle = await open(path, 'a', 0o600)
    try {
      await handle.appendFile(text)
    } finally {
      await handle.close()
    }
    counts.written += lines.length
  }

  let running: Promise<void> | null = null
  const flush = (): Promise<void> => {
    running ??= (async () => {
      while (waiting.length > 0) {
        // 2,000 lines take about 4 ms to spell; more would hold the event loop.
        const lines = waiting.splice(0, 2000)
        try {
          await write(lines)
          failing = false
        } catch (error) {
          counts.failed += lines.length
          if (!failing)
            log.error({ path, err: (error as Error).message }, 'the decision log cannot be written')
          failing = true
        }
      }
    })().finally(() => {
      running = null
    })
    return running
  }
  const timer = setInterval(() => void flush(), flushEvery)
  timer.unref()
  const add = (line: object) => {
    if (waiting.length >= maxWaiting) counts.dropped++
    else waiting.push(line)
  }

  return {
    counts,
    decided: (entry: DecisionEntry) => add(entry),
    won: (entry) => add({ ...entry, won: true }),
    flush,
    async close() {
      clearInterval(timer)
      await flush()
      waiting = []
    },
  }
}

/** A file that is not there yet need not be moved. */
function absent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
