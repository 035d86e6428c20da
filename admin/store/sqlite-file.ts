/**
 * Checks of the file of an open SQLite database: whether it was removed, replaced or overwritten, or is damaged.
 */
import { type Stats, statSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { StoreError } from './errors.ts'

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

/**
 * Commits to a removed or replaced file succeed, but a restart opens another file. After an overwrite, SQLite still has
 * the old pages in memory. `open` opens the file and its log. Throws if the file was replaced meanwhile.
 */
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

/** A pseudo-statement that makes the database thread check its file. It rejects with the first fault. */
export const checkSql = 'check the file'

/**
 * Files up to this size are checked completely. `quick_check` takes 1.8 s per cached GiB (`integrity_check`, which
 * also compares indexes with tables, 27 s). For a larger file the ledger, nearly all of it, is skipped.
 */
const mostWhole = 2 * 2 ** 30

/** The first fault, or null. The page cache is dropped first, so that the disk is read. */
export function faultOfFile(database: DatabaseSync): string | null {
  database.exec('pragma shrink_memory')
  const all = (sql: string) =>
    database
      .prepare(sql)
      .all()
      .map((row) => Object.values(row)[0])
  const [bytes] = all('select page_count * page_size from pragma_page_count, pragma_page_size')
  const small = Number(bytes) <= mostWhole
  const parts = small
    ? [1]
    : all("select quote(name) from sqlite_master where type = 'table' and name <> 'ledger'")
  for (const part of parts) {
    const [found] = all(`pragma quick_check(${part})`)
    if (found !== 'ok') return String(found)
  }
  return null
}

/**
 * The pause between two checks of a damaged file: a multiple of the duration of the check, at least `least`
 * milliseconds.
 */
const rest = { times: 10, least: 1000 }

interface Integrity {
  /** Reports an error of the file; it counts as damaged until `check` succeeds. */
  damaged(): void
  /** Rejects until the file passes a check. Checks are rate-limited. */
  check(): Promise<void>
}

/** `verify` reads the file and rejects with its fault. */
export function createIntegrity(verify: () => Promise<unknown>): Integrity {
  let failed = false
  let next = 0
  return {
    damaged() {
      failed = true
    },
    async check() {
      if (!failed) return
      const began = performance.now()
      if (began < next) throw new StoreError('unavailable', 'the database file has failed')
      try {
        await verify()
        failed = false
      } finally {
        const now = performance.now()
        next = now + Math.max(rest.least, rest.times * (now - began))
      }
    },
  }
}
