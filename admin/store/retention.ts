/**
 * Roll-up and retention of the ledger. Each hour is summed after it has passed, and again before its rows are
 * deleted; the sums are kept. Rows are deleted in small slices, so that no win waits. One node does this at a time.
 */

import { type Kysely, sql } from 'kysely'
import type { Log } from '../../opd/shared/log.ts'
import { clearStale, hour, hourOf, staleHours } from './hour.ts'
import { addUpHour } from './hours.ts'
import type { Store } from './index.ts'
import { openReader } from './reader.ts'
import type { Tables } from './tables.ts'

export interface RetentionOptions {
  /** Milliseconds until a row is deleted; called for each run, since a reload may change it. */
  keep: () => number
  now: () => number
  log: Log
  /** Milliseconds between two runs, and between two slices of a run. */
  every?: number
  pauseMs?: number
}

export interface Retention {
  /** Runs now and resolves to the number of deleted rows. */
  run(): Promise<number>
  close(): void
}

/** Rows of one statement. SQLite deletes them in 3 to 7 ms, with the flush. */
const sliceRows = 200
/** Milliseconds after the end of an hour until all its notices are on disk. */
const settle = 600_000

/** Milliseconds. */
const leaseMs = 300_000

interface Lease {
  /** False if another node has it. */
  take(): Promise<boolean>
  /** Called before each step: extends the lease when a third of it has passed. False if another node has it. */
  keep(): Promise<boolean>
  release(): Promise<void>
}

/** Only one node at a time sums and deletes rows. The lease expires if its node dies. */
function createLease(db: Kysely<Tables>, now: () => number): Lease {
  let until = 0

  async function set(where: '=' | '<=', than: number, next: number): Promise<boolean> {
    const { numUpdatedRows } = await db
      .updateTable('rolled')
      .set({ lease: next })
      .where('lease', where, than)
      .executeTakeFirst()
    if (numUpdatedRows > 0n) until = next
    return numUpdatedRows > 0n
  }

  return {
    take: () => set('<=', now(), now() + leaseMs),
    async keep() {
      return until - now() > (leaseMs * 2) / 3 || set('=', until, now() + leaseMs)
    },
    async release() {
      await set('=', until, 0)
    },
  }
}

export function createRetention(store: Store, options: RetentionOptions): Retention {
  const { keep, now, log, every = settle, pauseMs = 50 } = options
  const lease = createLease(store.db, now)
  const row = sql.ref(store.postgres ? 'ctid' : 'rowid')
  let closed = false
  /** False if closed, or if another node has the lease. */
  const mayContinue = async () => !closed && (await lease.keep())
  const pause = () => new Promise<void>((resolve) => setTimeout(resolve, pauseMs))

  async function read() {
    const { until, sealed } = await store.db
      .selectFrom('rolled')
      .select(['until', 'sealed'])
      .executeTakeFirstOrThrow()
    return { until: Number(until), sealed: Number(sealed) }
  }

  /** Starts the roll-up at the oldest row. */
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

  /** Runs `work` with a read-only connection. */
  async function reading<T>(work: (reader: Pick<Store, 'db' | 'postgres'>) => Promise<T>) {
    // only this thread can use a database in memory
    if (store.url === 'sqlite::memory:') return work(store)
    const reader = openReader(store.url)
    return work(reader).finally(() => reader.db.destroy())
  }

  /** Sums the hours of `[from, to)` and records the progress in column `mark`. */
  async function addUp(from: number, to: number, mark: 'until' | 'sealed'): Promise<number> {
    if (from >= to) return from
    return reading(async (reader) => {
      let at = from
      for (; at < to && (await mayContinue()); at += hour) {
        await addUpHour(store, reader, at, pause)
        // if a row of the hour has changed meanwhile, its rows are kept until they are summed again
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

  /** Sums the hours of `[from, to)` again in which a row has changed. */
  async function addUpStale(from: number, to: number): Promise<void> {
    const marks = await staleHours(store.db)
    const stale = marks.filter((each) => each.hour >= from && each.hour < to)
    if (stale.length === 0) return
    await reading(async (reader) => {
      for (const each of stale) {
        if (!(await mayContinue())) return
        await addUpHour(store, reader, each.hour, pause)
        await clearStale(store.db, each)
      }
    })
  }

  async function deleteSlice(before: number): Promise<number> {
    const { numAffectedRows = 0n } = await sql`
      delete from ledger where ${row} in (
        select ${row} from ledger where at < ${before} limit ${sql.lit(sliceRows)}
      )`.execute(store.db)
    return Number(numAffectedRows)
  }

  async function run(): Promise<number> {
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
      for (let last = sliceRows; last === sliceRows && (await mayContinue()); gone += last) {
        last = await deleteSlice(sealed)
        if (last > 0) await pause()
      }
      if (gone > 0) log.info({ rows: gone }, 'rows older than store.retentionDays were deleted')
      return gone
    } finally {
      if (!closed) await lease.release()
    }
  }

  let running = false
  const timer = setInterval(() => {
    if (running) return
    running = true
    run()
      .catch((error: Error) => log.warn({ err: error.message }, 'old rows could not be deleted'))
      .finally(() => {
        running = false
      })
  }, every)
  timer.unref()
  return {
    run,
    close() {
      closed = true
      clearInterval(timer)
    },
  }
}
