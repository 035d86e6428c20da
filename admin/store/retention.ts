/** The ledger keeps what the configuration says, no longer: old rows go a few at a time, so that no win waits for them. */
import { sql } from 'kysely'
import type { Store, StoreLog } from './index.ts'

export interface RetentionOptions {
  /** Milliseconds that a row is kept; read at each look, a reload may change it. */
  keep: () => number
  now: () => number
  log: StoreLog
  /** Milliseconds between two looks, and between two slices of one. */
  every?: number
  breath?: number
}

export interface Retention {
  /** One look now; resolves to the rows that went. */
  look(): Promise<number>
  close(): void
}

/** Rows of one statement: SQLite deletes 500 in some 5 ms. */
const sliceRows = 500

const tables = [
  ['ledger', 'at'],
  ['decided', 'hour'],
  ['audit', 'at'],
] as const

export function createRetention(store: Store, options: RetentionOptions): Retention {
  const { keep, now, log, every = 3_600_000, breath = 50 } = options
  const row = sql.ref(store.postgres ? 'ctid' : 'rowid')
  let closed = false

  async function slice(table: string, column: string, before: number): Promise<number> {
    const { numAffectedRows = 0n } = await sql`
      delete from ${sql.table(table)} where ${row} in (
        select ${row} from ${sql.table(table)} where ${sql.ref(column)} < ${before} limit ${sql.lit(sliceRows)}
      )`.execute(store.db)
    return Number(numAffectedRows)
  }

  async function look(): Promise<number> {
    const before = Math.floor(now() - keep())
    let gone = 0
    for (const [table, column] of tables)
      for (let last = sliceRows; last === sliceRows && !closed; gone += last) {
        last = await slice(table, column, before)
        if (last > 0) await new Promise((resolve) => setTimeout(resolve, breath))
      }
    if (gone > 0) log.info({ rows: gone }, 'rows older than store.retentionDays are gone')
    return gone
  }

  let looking = false
  const timer = setInterval(() => {
    if (looking) return
    looking = true
    look()
      .catch((error: Error) => log.warn({ err: error.message }, 'old rows stay for now'))
      .finally(() => {
        looking = false
      })
  }, every)
  timer.unref()
  return {
    look,
    close() {
      closed = true
      clearInterval(timer)
    },
  }
}
