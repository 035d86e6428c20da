/** Reads the configuration and the files that it names: regular files of a bounded size. Never waits for a writer. */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs'

const mebibyte = 1024 * 1024
const mostBytes = 16 * mebibyte
const leastBuffer = 65_535

/** What a file holds, or what is wrong with it, as the end of a sentence: `which is a FIFO`. */
export type FileText = { text: string } | { fault: string; allowed: string }

const allowed = `a regular file of at most ${mostBytes / mebibyte} MiB`

const kinds: readonly [is: (stat: Stats) => boolean, name: string][] = [
  [(stat) => stat.isDirectory(), 'a directory'],
  [(stat) => stat.isFIFO(), 'a FIFO'],
  [(stat) => stat.isSocket(), 'a socket'],
  [() => true, 'a device'],
]

function faultOf(stat: Stats): string | null {
  if (!stat.isFile()) return `which is ${kinds.find(([is]) => is(stat))![1]}`
  return stat.size > mostBytes ? `which is ${Math.ceil(stat.size / mebibyte)} MiB` : null
}

/** Files of /proc say that they are empty, and another process may append: the bytes that come are counted. */
function readBytes(descriptor: number, size: number): Buffer | null {
  let bytes = Buffer.alloc(Math.max(size, leastBuffer) + 1)
  let length = 0
  for (;;) {
    const read = readSync(descriptor, bytes, length, bytes.length - length, null)
    if (read === 0) return bytes.subarray(0, length)
    length += read
    if (length > mostBytes) return null
    if (length === bytes.length) bytes = Buffer.concat([bytes], 2 * length)
  }
}

/** Never throws. */
export function readText(file: string): FileText {
  let descriptor: number | null = null
  try {
    // Opening a device may do something, so the file is looked at before; another one may be there a moment later.
    const before = faultOf(statSync(file))
    if (before !== null) return { fault: before, allowed }
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const stat = fstatSync(descriptor)
    const fault = faultOf(stat)
    if (fault !== null) return { fault, allowed }
    const bytes = readBytes(descriptor, stat.size)
    if (bytes === null) return { fault: `which is more than ${mostBytes / mebibyte} MiB`, allowed }
    return { text: bytes.toString('utf8') }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return { fault: `which cannot be read (${code})`, allowed: 'a file that can be read' }
  } finally {
    if (descriptor !== null) closeSync(descriptor)
  }
}
