/** Reads configuration files of bounded size, each with the version that was read. */
import { isUtf8 } from 'node:buffer'
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs'
import { stat } from 'node:fs/promises'

const mebibyte = 1024 * 1024
const maxBytes = 16 * mebibyte
const minBuffer = 65_535

/**
 * Changes when the file does: inode, size and time of modification, or the code of the error. A watcher compares the
 * version that was read with the present one, so that no change in between is lost.
 */
type FileVersion = string
/** By absolute path, folders too; the configuration first. */
export type FileVersions = Map<string, FileVersion>

const versionOf = ({ ino, size, mtimeMs }: Stats): FileVersion => `${ino} ${size} ${mtimeMs}`
const errorVersion = (error: unknown): FileVersion => String((error as NodeJS.ErrnoException).code)

/**
 * Never rejects: that a file is missing is a version, too.
 *
 * @param files absolute paths. Versions are read one after another, without blocking the event loop
 */
export async function currentVersions(files: Iterable<string>): Promise<FileVersions> {
  const versions: FileVersions = new Map()
  for (const file of files) versions.set(file, await stat(file).then(versionOf, errorVersion))
  return versions
}

/**
 * Whether the files are those that were read.
 *
 * @param files the versions at which they were read. The calls of `stat` block
 */
export function areUnchanged(files: FileVersions): boolean {
  for (const [file, version] of files) if (versionNow(file) !== version) return false
  return true
}

function versionNow(file: string): FileVersion {
  try {
    return versionOf(statSync(file))
  } catch (error) {
    return errorVersion(error)
  }
}

/** The text of a file, or its fault as the end of a sentence: `which is a FIFO`. */
type FileText = { version: FileVersion } & ({ text: string } | { fault: string; allowed: string })

const allowed = `a regular file of at most ${maxBytes / mebibyte} MiB`

const kinds: readonly [is: (stat: Stats) => boolean, name: string][] = [
  [(stat) => stat.isDirectory(), 'a directory'],
  [(stat) => stat.isFIFO(), 'a FIFO'],
  [(stat) => stat.isSocket(), 'a socket'],
  [() => true, 'a device'],
]

function faultOf(stat: Stats, limit: number): string | null {
  if (!stat.isFile()) return `which is ${kinds.find(([is]) => is(stat))![1]}`
  return stat.size > limit ? `which is ${Math.ceil(stat.size / mebibyte)} MiB` : null
}

/** Counts the bytes that it reads: files of /proc report size 0, and another process may append. */
function readBytes(descriptor: number, size: number, limit: number): Buffer | null {
  let bytes = Buffer.alloc(Math.max(size, minBuffer) + 1)
  let length = 0
  for (;;) {
    const read = readSync(descriptor, bytes, length, bytes.length - length, null)
    if (read === 0) return bytes.subarray(0, length)
    length += read
    if (length > limit) return null
    if (length === bytes.length) bytes = Buffer.concat([bytes], 2 * length)
  }
}

/**
 * The names in a folder, in order, or its fault. A folder changes when a name is added, removed or, as kubelet does with
 * its link `..data`, replaced. Never throws.
 */
export function readFolder(
  folder: string,
): { version: FileVersion } & ({ names: string[] } | { fault: string; allowed: string }) {
  // Before its names: what changes in between is a change for the watcher.
  const version = versionNow(folder)
  try {
    return { version, names: readdirSync(folder).sort() }
  } catch (error) {
    const fault = `which cannot be read (${errorVersion(error)})`
    return { version, fault, allowed: 'a folder that can be read' }
  }
}

/** The first line that is not UTF-8: other encodings would silently become other names. */
function oddLine(bytes: Buffer): number {
  let [line, from] = [1, 0]
  for (;;) {
    const end = bytes.indexOf(10, from)
    if (end === -1 || !isUtf8(bytes.subarray(from, end))) return line
    line++
    from = end + 1
  }
}

/**
 * Reads a regular file of at most `limit` bytes. Never blocks on a FIFO, never throws.
 *
 * @param file a path, whose links are followed
 * @param limit bytes; 16 MiB by default
 */
export function readText(file: string, limit = maxBytes): FileText {
  let descriptor: number | null = null
  let version: FileVersion | null = null
  try {
    // Opening a device can have effects, so the kind is checked before; and after, because the file may have been replaced.
    const before = statSync(file)
    version = versionOf(before)
    const faultBefore = faultOf(before, limit)
    if (faultBefore !== null) return { version, fault: faultBefore, allowed }
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const opened = fstatSync(descriptor)
    version = versionOf(opened)
    const fault = faultOf(opened, limit)
    if (fault !== null) return { version, fault, allowed }
    const bytes = readBytes(descriptor, opened.size, limit)
    if (bytes === null)
      return { version, fault: `which is more than ${maxBytes / mebibyte} MiB`, allowed }
    if (!isUtf8(bytes))
      return { version, fault: `which is not UTF-8 in line ${oddLine(bytes)}`, allowed: 'UTF-8' }
    return { version, text: bytes.toString('utf8') }
  } catch (error) {
    const code = errorVersion(error)
    return {
      version: version ?? code,
      fault: `which cannot be read (${code})`,
      allowed: 'a file that can be read',
    }
  } finally {
    if (descriptor !== null) closeSync(descriptor)
  }
}
