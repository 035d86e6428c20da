/**
 * Detects that the file of an open SQLite database was removed, replaced or overwritten. Commits to a removed or
 * replaced file succeed, but a restart opens another file. After an overwrite, SQLite still has the old pages in
 * memory.
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
  /** The first path that has no file, or another one; null: all are unchanged. 7 us. */
  moved(): string | null
  /** Whether the file was written to, or its log truncated, since `note`. */
  written(): boolean
  /** Records the present state of the file as written by this database. */
  note(): void
}

/** `open` opens the file and its log. Throws if the file was replaced meanwhile. */
export function watchFile(file: string, open: () => DatabaseSync): DatabaseFile {
  const before = identity(look(file))
  const database = open()
  // if the path is a link, the log and its shared index are beside the real file
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

/** A database in memory has no file. */
export const inMemoryFile = (database: DatabaseSync): DatabaseFile => ({
  database,
  moved: () => null,
  written: () => false,
  note() {},
})
