/**
 * The decision log: NDJSON, one line for each decision and each win, written off the hot path and rotated by size. If the
 * disk fails, lines are lost and counted, and one error is logged. Bids are not affected.
 */

import { type FileHandle, open, rename, unlink } from 'node:fs/promises'
import * as z from 'zod'
import type { Log } from '../base/log.ts'
import { shareRun } from '../base/one-at-a-time.ts'
import { size } from '../base/units.ts'
import type { DecisionEntry, DecisionSink, WinEntry } from '../ports.ts'

export const decisionLogSchema = z.strictObject({
  path: z.string().min(1).describe('File of the decision log, NDJSON.'),
  maxBytes: size('256MiB').describe('Size at which the file is rotated, bytes.'),
  contexts: z
    .boolean()
    .default(false)
    .describe(
      'Whether lines of decisions have the bid id and the context, by which `bidweir notices import` finds them. They are twice as long. A node with models.from always writes them.',
    ),
  keep: z.int().min(1).max(1000).default(8).describe('Number of rotated files that are kept.'),
})

type DecisionLogConfig = z.infer<typeof decisionLogSchema>

/** Lines in the buffer. Further lines are dropped and counted. */
const maxWaiting = 50_000
/** 1,000 lines take about 3 ms to serialize. More would block the event loop. */
const linesAtOnce = 1000
const flushEvery = 200
const newline = 10

/**
 * `isSealed`: the node has no network, so its bids are pending on no node.
 *
 * @param config `maxBytes` of one file, and how many older files are kept
 * @param log has a line when writing begins to fail
 * @param isSealed the node has no network, so its bids are pending on no node
 */
export function createDecisionLog(config: DecisionLogConfig, log: Log, isSealed = false) {
  const { path, maxBytes, keep } = config
  /** Lines written, dropped because the buffer was full, and lost because the disk failed. */
  const counts = { written: 0, dropped: 0, failed: 0 }
  let waiting: object[] = []
  let failing = false
  /** The file may end with an incomplete line, after a crash or a full disk. */
  let mayBeTorn = true

  async function rotate(): Promise<void> {
    await unlink(`${path}.${keep}`).catch(ignoreAbsent)
    for (let n = keep - 1; n >= 1; n--)
      await rename(`${path}.${n}`, `${path}.${n + 1}`).catch(ignoreAbsent)
    await rename(path, `${path}.1`).catch(ignoreAbsent)
  }

  async function append(bytes: Buffer, mayRotate: boolean): Promise<void> {
    const handle = await open(path, 'a+', 0o600)
    let rotates = false
    try {
      const { size } = await handle.stat()
      rotates = mayRotate && size > 0 && size + bytes.length > maxBytes
      if (!rotates) {
        const isTorn = mayBeTorn && size > 0 && (await lastByte(handle, size)) !== newline
        mayBeTorn = true
        await handle.appendFile(isTorn ? Buffer.concat([Buffer.of(newline), bytes]) : bytes)
        mayBeTorn = false
      }
    } finally {
      await handle.close()
    }
    if (!rotates) return
    await rotate()
    await append(bytes, false)
  }

  async function write(lines: object[]): Promise<void> {
    try {
      await append(Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join('')), true)
      counts.written += lines.length
      failing = false
    } catch (error) {
      counts.failed += lines.length
      if (!failing)
        log.error({ path, err: (error as Error).message }, 'the decision log cannot be written')
      failing = true
    }
  }

  const flush = shareRun(async () => {
    while (waiting.length > 0) await write(waiting.splice(0, linesAtOnce))
  })
  const timer = setInterval(() => void flush(), flushEvery).unref()
  const add = (line: object) => {
    if (waiting.length >= maxWaiting) counts.dropped++
    else waiting.push(line)
  }

  return {
    counts,
    contexts: isSealed || config.contexts,
    writeDecision: (entry: DecisionEntry) => add(isSealed ? { ...entry, sealed: true } : entry),
    writeWin: (entry: WinEntry) => add({ ...entry, won: true }),
    writeWithdrawal: (entry) => add({ ...entry, withdrawn: true }),
    flush,
    async close() {
      clearInterval(timer)
      await flush()
      waiting = []
    },
  } satisfies DecisionSink & Record<string, unknown>
}

async function lastByte(handle: FileHandle, size: number): Promise<number | undefined> {
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1)
  return buffer[0]
}

/** A file that does not exist need not be moved. */
function ignoreAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
