/**
 * Reads decision logs in time order: rotated files, files of several nodes, gzip or plain. Files are streamed; one chunk of
 * each open file is in memory.
 */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type LogLine, parseLine } from '../replay/line.ts'
import { textLines } from './text-lines.ts'

export interface ReadLine {
  file: string
  /** From 1. */
  number: number
  line: LogLine
}

const readable = /\.(ndjson|jsonl|log)(\.\d+)?(\.gz)?$/

/**
 * The log files of paths.
 *
 * @param paths files, or folders whose files with the endings of a log are taken
 * @throws if a path does not exist, or a folder has no log
 */
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

/** The lines of one file, a batch for each chunk. After a read error the last line is a bad line. */
async function* batches(file: string): AsyncGenerator<ReadLine[]> {
  for await (const batch of textLines(file))
    yield batch.flatMap(({ number, text, fault }) => {
      if (text === '') return []
      return { file, number, line: text === null ? { kind: 'bad', why: fault } : parseLine(text) }
    })
}

/** One open file: its current batch, and the time of its current line. */
class Cursor {
  private readonly source: AsyncGenerator<ReadLine[]>
  private batch: ReadLine[] = []
  private offset = 0
  /** Never falls: lines of one file keep their order, even if their times do not. */
  time = Number.NEGATIVE_INFINITY

  constructor(source: AsyncGenerator<ReadLine[]>) {
    this.source = source
  }

  /** Moves to the next line; null at the end. */
  async next(): Promise<ReadLine | null> {
    if (this.offset >= this.batch.length) {
      const { value, done } = await this.source.next()
      if (done) return null
      this.batch = value
      this.offset = 0
    }
    const read = this.batch[this.offset++]!
    if (read.line.kind !== 'bad') this.time = Math.max(this.time, read.line.time)
    return read
  }

  /** The lines of the batch up to `until`, without waiting for the disk. */
  *upTo(until: number): Generator<ReadLine> {
    while (this.offset < this.batch.length) {
      const { line } = this.batch[this.offset]!
      if (line.kind !== 'bad' && Math.max(this.time, line.time) > until) return
      if (line.kind !== 'bad') this.time = Math.max(this.time, line.time)
      yield this.batch[this.offset++]!
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

/**
 * All lines of all files in time order, bad lines at their place. A file is opened when its time is reached.
 *
 * @param files plain or gzip, in any order
 * @returns the lines; a file that cannot be read ends with a bad one
 */
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
      if (line === null) active = active.filter((cursor) => cursor !== first)
      else first.line = line
    }
  } finally {
    for (const { cursor } of active) await cursor.close()
  }
}
