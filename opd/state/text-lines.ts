/** The lines of a file, gzip or plain, in batches. The file is streamed; one chunk is in memory. */
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { createGunzip } from 'node:zlib'

/** A line, without white space at its ends, or why it cannot be read. */
export type TextLine =
  | { /** From 1. */ number: number; text: string; fault?: never }
  | { number: number; text: null; fault: string }

/** A longer line is not read. */
const maxLineBytes = 64 * 1024
const newline = 10

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
  const gunzip = createGunzip()
  raw.on('error', (error) => gunzip.destroy(error))
  yield* raw.pipe(gunzip)
}

/**
 * A batch for each chunk. After a read error the last line has a fault, and so has a line that is too long; nothing is thrown.
 *
 * @param file plain text or gzip, by its first bytes
 */
export async function* textLines(file: string): AsyncGenerator<TextLine[]> {
  let rest: Buffer[] = []
  let length = 0
  let number = 0
  let batch: TextLine[] = []
  const end = () => {
    number++
    if (length > maxLineBytes)
      batch.push({ number, text: null, fault: `longer than ${maxLineBytes} bytes` })
    else if (length > 0) batch.push({ number, text: Buffer.concat(rest).toString('utf8').trim() })
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
      for (let index = chunk.indexOf(newline); index >= 0; index = chunk.indexOf(newline, from)) {
        keep(chunk.subarray(from, index))
        end()
        from = index + 1
      }
      keep(chunk.subarray(from))
      if (batch.length > 0) yield batch
      batch = []
    }
    if (length > 0) end()
  } catch (error) {
    const fault = `cannot be read further: ${(error as Error).message}`
    batch.push({ number: number + 1, text: null, fault })
  }
  if (batch.length > 0) yield batch
}
