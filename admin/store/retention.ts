/**
 * The ledger keeps what the configuration says, no longer. Its hours are added up when they have passed, once more
 * before their rows go, and the sums stay; rows go a few at a time, so that no win waits for them. Of several nodes
 * one is at it.
 */

import { sql } from 'kysely'
import type { Log } from '../../opd/shared/log.ts'
import { hour, hourOf } from './hour.ts'
import { addUpHour } from './hours.ts'
import type { Store } from './index.ts'
import { createLease } from './lease.ts'
import { openReader } from './reader.ts'
import { clearStale, staleHours } from './stale-hours.ts'

export interface RetentionOptions {
  /** Milliseconds that a row is kept; read at each look, a reload may change it. */
  keep: () => number
  now: () => number
  log: Log
  /** Milliseconds between two looks, and between two slices of one. */
  every?: number
  breath?: number
}

export interface Retention {
  /** One look now; resolves to the rows that went. */
  look(): Promise<number>
  close(): void
}

/** Rows of one statement: SQLite deletes them in 3 to 7 ms, its flush included. */
const sliceRows = 200
/** Milliseconds after an hour's end until every notice of it is on disk. */
const settle = 600_000

export function createRetention(store: Store, options: RetentionOptions): Retention {
  const { keep, now, log, every = settle, breath = 50 } = options
  const lease = createLease(store.db, now)
  const row = sql.ref(store.postgres ? 'ctid' : 'rowid')
  let closed = false
  /** False: closed, or another node has the work by now. */
  const goesOn = async () => !closed && (await lease.keep())
  const breathe = () => new Promise<void>((resolve) => setTimeout(resolve, breath))

  async function read() {
    const { until, sealed } = await store.db
      .selectFrom('rolled')
      .select(['until', 'sealed'])
      .executeTakeFirstOrThrow()
    return { until: Number(until), sealed: Number(sealed) }
  }

  /** Where adding up begins: at the oldest row. */
  async function begin(end: number): Promise<number> {
    const { at } = await store.db
      .selectFrom('ledger')
      .select(({ fn }) => fn.min('at').as('at'))
      .executeTakeFirstOrThrow()
    const first = at === null ? end : Math.min(end, Number(at))
    const from = hourOf(first)
    await store.db.updateTable('rolled').set({ until: from, sealed: from }).execute()
    return from
  }

  /** Works with a connection that only reads. */
  async function reading<T>(work: (reader: Pick<Store, 'db' | 'postgres'>) => Promise<T>) {
    // a database in memory is of one thread alone
    if (store.url === 'sqlite::memory:') return work(store)
    const reader = openReader(store.url)
    return work(reader).finally(() => reader.db.destroy())
  }

  /** Adds up the hours of `[from, to)` and says so of each in `mark`. */
  async function addUp(from: number, to: number, mark: 'until' | 'sealed'): Promise<number> {
    if (from >= to) return from
    return reading(async (reader) => {
      let at = from
      for (; at < to && (await goesOn()); at += hour) {
        await addUpHour(store, reader, at, breathe)
        // a row of the hour that changed meanwhile is in no sum: its rows stay until they are added up again
        const { numUpdatedRows } = await store.db
          .updateTable('rolled')
          .set({ [mark]: at + hour })
          .where(mark, '=', at)
          .$if(mark === 'sealed', (update) =>
            update.where(({ not, exists, selectFrom }) =>
              not(exists(selectFrom('stale_hours').select('hour').where('hour', '=', at))),
            ),
          )
          .executeTakeFirst()
        if (numUpdatedRows === 0n) break
      }
      return at
    })
  }

  /** Adds up again the hours of `[from, to)` of which a row has changed since. */
  async function addUpStale(from: number, to: number): Promise<void> {
    const marks = await staleHours(store.db)
    const stale = marks.filter((each) => each.hour >= from && each.hour < to)
    if (stale.length === 0) return
    await reading(async (reader) => {
      for (const each of stale) {
        if (!(await goesOn())) return
        await addUpHour(store, reader, each.hour, breathe)
        await clearStale(store.db, each)
      }
    })
  }

  async function slice(before: number): Promise<number> {
    const { numAffectedRows = 0n } = await sql`
      delete from ledger where ${row} in (
        select ${row} from ledger where at < ${before} limit ${sql.lit(sliceRows)}
      )`.execute(store.db)
    return Number(numAffectedRows)
  }

  async function look(): Promise<number> {
    if (!(await lease.take())) return 0
    try {
      const end = now() - settle
      let { until, sealed } = await read()
      if (until === 0) {
        until = await begin(end)
        sealed = until
      }
      until = await addUp(until, hourOf(end), 'until')
      await addUpStale(sealed, until)
      const old = now() - keep()
      sealed = await addUp(sealed, Math.min(until, hourOf(old)), 'sealed')
      let gone = 0
      for (let last = sliceRows; last === sliceRows && (await goesOn()); gone += last) {
        last = await slice(sealed)
        if (last > 0) await breathe()
      }
      if (gone > 0) log.info({ rows: gone }, 'rows older than store.retentionDays are gone')
      return gone
    } finally {
      if (!closed) await lease.release()
    }
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
