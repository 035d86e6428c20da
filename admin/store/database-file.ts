/**
 * Whether an open SQLite database is still that of its paths. A file that was removed or replaced takes commits as
 * before, but a restart opens another; one that another program overwrites is still in memory as it was.
 */
import { type Stats, statSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'

const look = (path: string) => statSync(path, { throwIfNoEntry: false })
const identity = (found: Stats | undefined) =>
  found === undefined ? '' : `${found.dev} ${found.ino}`
const content = (found: Stats | undefined) =>
  found === undefined ? '' : `${found.size} ${found.mtimeMs}`

export interface DatabaseFile {
  database: DatabaseSync
  /** The first path that names no file or another one; null: all are as they were opened. 7 us. */
  moved(): string | null
  /** Whether the file was written to, or its log cut, since `note`. */
  written(): boolean
  /** The file is as the database left it. */
  note(): void
}

/** `open` opens the file and its log. Throws where another file came to its place meanwhile. */
export function watchFile(file: string, open: () => DatabaseSync): DatabaseFile {
  const before = identity(look(file))
  const database = open()
  // beside the file itself, where the path is a link: the log, and its index that all processes share
  const real = database.location() ?? file
  const files = [file, `${real}-wal`, `${real}-shm`].map(
    (path) => [path, identity(look(path))] as const,
  )
  if (files[0]![1] !== before) throw new Error('it was replaced while it was opened')
  const logSize = () => look(files[1]![0])?.size ?? 0
  let noted = { content: content(look(file)), logSize: logSize() }
  return {
    database,
    moved: () => files.find(([path, known]) => identity(look(path)) !== known)?.[0] ?? null,
    written: () => content(look(file)) !== noted.content || logSize() < noted.logSize,
    note() {
      noted = { content: content(look(file)), logSize: logSize() }
    },
  }
}

/** A database in memory has no file that could be another. */
export const inMemoryFile = (database: DatabaseSync): DatabaseFile => ({
  database,
  moved: () => null,
  written: () => false,
  note() {},
})
