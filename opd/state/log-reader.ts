/**
 * Reads decision logs in time order: rotated files, files of several nodes, gzip or plain. Files are streamed; one chunk of
 * each open file is in memory.
 */
import { createReadStream } from 'node:fs'
import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createGunzip } from 'node:zlib'
import { type LogLine, parseLine } from '../replay/line.ts'

export interface ReadLine {
  file: string
  /** From 1. */
  number: number
  line: LogLine
}

/** A longer line is not from this program, and is skipped. */
const maxLineBytes = 64 * 1024
const newline = 10
const readable = /\.(ndjson|jsonl|log)(\.\d+)?(\.gz)?$/

/** The log files of paths, which may be folders. Throws if a path does not exist, or a folder has no log. */
export async function logFiles(paths: readonly string[]): Promise<string[]> {
  const files: string[] = []
  for (const path of paths) {
    const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'ENOENT' ? new Error(`${path}: no such file or folder`) : error
    })
    if (!found.isDirectory()) {
      files.push(path)
      continue
    }
    const names = (await readdir(path)).filter((name) => readable.test(name))
    if (names.length === 0)
      throw new Error(`${path}: no log in this folder (*.ndjson, *.jsonl, *.log, rotated or .gz)`)
    files.push(...names.sort().map((name) => join(path, name)))
  }
  return [...new Set(files)]
}

async function startsWithGzip(file: string): Promise<boolean> {
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(2), 0, 2, 0)
    return bytesRead === 2 && buffer.readUInt16BE(0) === 0x1f8b
  } finally {
    await handle.close()
  }
}

async function* chunks(file: string): AsyncGenerator<Buffer> {
  const raw = createReadStream(file, { highWaterMark: 256 * 1024 })
  if (!(await startsWithGzip(file))) {
    yield* raw
    return
  }
  const whole = createGunzip()
  raw.on('error', (error) => whole.destroy(error))
  yield* raw.pipe(whole)
}

/** The lines of one file, a batch for each chunk. After a read error the last line is a bad line. */
async function* batches(file: string): AsyncGenerator<ReadLine[]> {
  let rest: Buffer[] = []
  let length = 0
  let number = 0
  let batch: ReadLine[] = []
  const end = () => {
    number++
    if (length > maxLineBytes)
      batch.push({ file, number, line: { kind: 'bad', why: `longer than ${maxLineBytes} bytes` } })
    else if (length > 0) {
      const text = Buffer.concat(rest).toString('utf8').trim()
      if (text !== '') batch.push({ file, number, line: parseLine(text) })
    }
    rest = []
    length = 0
  }
  const keep = (bytes: Buffer) => {
    length += bytes.length
    if (length <= maxLineBytes) rest.push(bytes)
    else rest = []
  }
  try {
    for await (const chunk of chunks(file)) {
      let from = 0
      for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
        keep(chunk.subarray(from, at))
        end()
        from = at + 1
      }
      keep(chunk.subarray(from))
      if (batch.length > 0) yield batch
      batch = []
    }
    if (length > 0) end()
  } catch (error) {
    const why = `cannot be read further: ${(error as Error).message}`
    batch.push({ file, number: number + 1, line: { kind: 'bad', why } })
  }
  if (batch.length > 0) yield batch
}

/** One open file: its current batch, and the time of its current line. */
class Cursor {
  private readonly source: AsyncGenerator<ReadLine[]>
  private batch: ReadLine[] = []
  private at = 0
  /** Never falls: lines of one file keep their order, even if their times do not. */
  time = Number.NEGATIVE_INFINITY

  constructor(source: AsyncGenerator<ReadLine[]>) {
    this.source = source
  }

  /** Moves to the next line; null at the end. */
  async next(): Promise<ReadLine | null> {
    if (this.at >= this.batch.length) {
      const { value, done } = await this.source.next()
      if (done) return null
      this.batch = value
      this.at = 0
    }
    const read = this.batch[this.at++]!
    if (read.line.kind !== 'bad') this.time = Math.max(this.time, read.line.time)
    return read
  }

  /** The lines of the batch up to `until`, without waiting for the disk. */
  *upTo(until: number): Generator<ReadLine> {
    while (this.at < this.batch.length) {
      const { line } = this.batch[this.at]!
      if (line.kind !== 'bad' && Math.max(this.time, line.time) > until) return
      if (line.kind !== 'bad') this.time = Math.max(this.time, line.time)
      yield this.batch[this.at++]!
    }
  }

  close(): Promise<unknown> {
    return this.source.return(undefined)
  }
}

/** The time of the first valid line; minus infinity if there is none, so that the file is read first. */
async function startTime(file: string): Promise<number> {
  const source = batches(file)
  try {
    const { value } = await source.next()
    const first = value?.find(({ line }: ReadLine) => line.kind !== 'bad')?.line
    return first === undefined || first.kind === 'bad' ? Number.NEGATIVE_INFINITY : first.time
  } finally {
    await source.return(undefined)
  }
}

/** All lines of all files in time order, bad lines at their place. A file is opened when its time is reached. */
export async function* readLogs(files: readonly string[]): AsyncGenerator<ReadLine> {
  const waiting: { file: string; from: number }[] = []
  for (const file of files) waiting.push({ file, from: await startTime(file) })
  waiting.sort((one, other) => one.from - other.from)
  let active: { cursor: Cursor; line: ReadLine }[] = []
  try {
    for (;;) {
      active.sort((one, other) => one.cursor.time - other.cursor.time)
      const [first, second] = active
      const next = waiting[0]
      if (next !== undefined && (first === undefined || next.from <= first.cursor.time)) {
        waiting.shift()
        const cursor = new Cursor(batches(next.file))
        const line = await cursor.next()
        if (line !== null) active.push({ cursor, line })
        continue
      }
      if (first === undefined) return
      yield first.line
      const until = Math.min(second?.cursor.time ?? Infinity, next?.from ?? Infinity)
      yield* first.cursor.upTo(until)
      const line = await first.cursor.next()
      if (line === null) active = active.filter((each) => each !== first)
      else first.line = line
    }
  } finally {
    for (const { cursor } of active) await cursor.close()
  }
}
