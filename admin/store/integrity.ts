/** Whether a SQLite file is whole: looked at when the service starts, and after each fault of the file. */
import { type Kysely, sql } from 'kysely'
import { StoreError } from './errors.ts'
import type { Tables } from './tables.ts'

/**
 * Bytes of a file that is read whole: `quick_check` takes 1.8 s a GiB that is cached (`integrity_check`, which also
 * compares indexes with their tables, 27 s). Of a larger file the ledger is left out, which has nearly all of it.
 */
const mostWhole = 4 * 2 ** 30
/** Between two checks of a file that was damaged: so many times what one takes, at least the milliseconds. */
const rest = { times: 10, least: 1000 }

export interface Integrity {
  /** Rejects with what is wrong first. */
  verify(): Promise<void>
  /** The file has failed; until `check` has found it whole. */
  damaged(): void
  /** Rejects while the file is damaged; looks again at most once in a while, since no win is stored meanwhile. */
  check(): Promise<void>
}

export function createIntegrity(db: () => Kysely<Tables>, file: string): Integrity {
  let failed = false
  let next = 0

  async function tables(): Promise<string[]> {
    const { rows } = await sql<{ bytes: number }>`select page_count * page_size as bytes
      from pragma_page_count, pragma_page_size`.execute(db())
    if (Number(rows[0]?.bytes) <= mostWhole) return ['1']
    const named = await sql<{ name: string }>`select name from sqlite_master
      where type = 'table' and name <> 'ledger'`.execute(db())
    return named.rows.map(({ name }) => `'${name}'`)
  }

  async function verify(): Promise<void> {
    for (const what of await tables()) {
      const { rows } = await sql<{
        quick_check: string
      }>`pragma quick_check(${sql.raw(what)})`.execute(db())
      const found = rows[0]?.quick_check
      if (found !== 'ok')
        throw new StoreError('unavailable', `the database file ${file} is corrupt: ${found}`)
    }
  }

  return {
    verify,
    damaged() {
      failed = true
    },
    async check() {
      if (!failed) return
      const began = performance.now()
      if (began < next)
        throw new StoreError('unavailable', `the database file ${file} failed, it is checked soon`)
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
