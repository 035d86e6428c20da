/**
 * The bid log of a node on disk, from its orderly end to its next start:
 *
 *   magic  (length  CRC-32  entries)…      a part has at most 1 MiB of entries (bid-log.ts)
 *   8       4       4
 */
import { open, rename, rm } from 'node:fs/promises'
import { setImmediate as yieldToLoop } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import type { Log } from '../base/log.ts'

/** The digits are the version of the format, and of the records in it. */
const magic = Buffer.from('bidlog01')
const headBytes = 8
const maxPart = 1024 * 1024

interface SpooledLog {
  /** The decisions that can still be found, in parts of at most 1 MiB, oldest first. */
  parts(): Iterable<Buffer>
  append(entries: Buffer): void
}

/**
 * Writes the decisions to the file, which replaces the one before only when it is complete. Never rejects: a failure is
 * logged, and the notices of these decisions then need a context.
 *
 * @param path the file; it is readable for its owner alone
 * @param bidLog the decisions to write
 * @param log for failures
 */
export async function spoolBids(path: string, bidLog: SpooledLog, log: Log): Promise<void> {
  const unfinished = `${path}.new`
  try {
    const file = await open(unfinished, 'w', 0o600)
    try {
      await file.writeFile(magic)
      for (const entries of bidLog.parts()) {
        const head = Buffer.alloc(headBytes)
        head.writeUInt32BE(entries.length)
        head.writeUInt32BE(crc32(entries), 4)
        await file.writev([head, entries])
      }
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, path)
  } catch (error) {
    log.warn({ err: (error as Error).message, path }, 'the bid log was not written to disk')
  }
}

/**
 * Reads the decisions of the last run, and removes the file. Never rejects: what cannot be read is left out and logged.
 *
 * @param path the file; it need not exist
 * @param bidLog receives the decisions
 * @param log for damage
 */
export async function restoreBids(path: string, bidLog: SpooledLog, log: Log): Promise<void> {
  try {
    await using file = await open(path)
    await readParts(file, bidLog)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    log.warn({ err: (error as Error).message, path }, 'the bid log on disk is damaged')
  }
  await rm(path, { force: true, recursive: true }).catch((error: Error) =>
    log.warn({ err: error.message, path }, 'the bid log on disk was not removed'),
  )
}

async function readParts(
  file: { read(bytes: Buffer): Promise<{ bytesRead: number }> },
  bidLog: SpooledLog,
): Promise<void> {
  const readWhole = async (bytes: Buffer) => {
    let length = 0
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes.subarray(length))
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length !== 0 && length !== bytes.length) throw new Error('it ends within a part')
    return length > 0
  }
  const start = Buffer.alloc(magic.length)
  if (!(await readWhole(start)) || !start.equals(magic)) throw new Error('it is no bid log')
  for (const head = Buffer.alloc(headBytes); await readWhole(head); ) {
    const length = head.readUInt32BE()
    if (length === 0 || length > maxPart) throw new Error('the length of a part is not valid')
    const entries = Buffer.alloc(length)
    if (!(await readWhole(entries)) || crc32(entries) !== head.readUInt32BE(4))
      throw new Error('a part is damaged')
    bidLog.append(entries)
    // 3 ms for each part
    await yieldToLoop()
  }
}
