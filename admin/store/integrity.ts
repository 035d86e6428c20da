/** Checks a SQLite file for damage: when the service starts, and after each error of the file. */
import type { DatabaseSync } from 'node:sqlite'
import { StoreError } from './errors.ts'

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
