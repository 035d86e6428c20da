/**
 * Whether the paths of an open SQLite database still name the files that were opened. A file that was removed or
 * replaced takes commits as before, but a restart opens another.
 */
import { statSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'

/** The file's device and number; '' where there is none. */
function identity(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined ? '' : `${found.dev} ${found.ino}`
}

export interface HeldFile {
  database: DatabaseSync
  /** The first path that names no file or another one; null: all are as they were opened. 10 us. */
  moved(): string | null
}

/** `open` opens the file and its log. Throws where another file came to its place meanwhile. */
export function holdFile(file: string, open: () => DatabaseSync): HeldFile {
  const before = identity(file)
  const database = open()
  // beside the file itself, where the path is a link: the log, and its index that all processes share
  const real = database.location() ?? file
  const files = [file, `${real}-wal`, `${real}-shm`].map((path) => [path, identity(path)] as const)
  if (files[0]![1] !== before) throw new Error('it was replaced while it was opened')
  return {
    database,
    moved: () => files.find(([path, known]) => identity(path) !== known)?.[0] ?? null,
  }
}
