/** Whether a SQLite file is whole: looked at when the service starts, and after each fault of the file. */
import type { DatabaseSync } from 'node:sqlite'
import { StoreError } from './errors.ts'

/** What the database thread takes as the question whether its file is whole; it rejects with what is wrong first. */
export const checkSql = 'check the file'

/**
 * Bytes of a file that is read whole: `quick_check` takes 1.8 s a GiB that is cached (`integrity_check`, which also
 * compares indexes with their tables, 27 s). Of a larger file the ledger is left out, which has nearly all of it.
 */
const mostWhole = 2 * 2 ** 30

/** What is wrong first, or null. It is the disk that is asked, not what is known of it. */
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

/** Between two checks of a file that failed: so many times what one takes, at least the milliseconds. */
const rest = { times: 10, least: 1000 }

export interface Integrity {
  /** The file has failed; until `check` has found it whole. */
  damaged(): void
  /** Rejects until the file is whole again; reads it once in a while, since no win is stored meanwhile. */
  check(): Promise<void>
}

/** `verify` reads the file and rejects with what is wrong. */
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
