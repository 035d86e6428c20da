/**
 * Roll-up and retention of the ledger. Each hour is summed after it has passed, and again before its rows are
 * deleted; the sums are kept. Rows are deleted by whole days: PostgreSQL drops their partitions; SQLite deletes slices that
 * take some milliseconds, so that no win waits. One node does this at a time.
 */
import { sql } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { shareRun } from '../../opd/base/one-at-a-time.ts'
import { deleteArmDays } from './arm-days.ts'
import { day, hour, hourOf } from './hour.ts'
import { addUpHour } from './hour-sums.ts'
import type { Store } from './index.ts'
import { createLease } from './lease.ts'
import { createNextDays, dropDay, oldDays } from './ledger-days.ts'
import { deleteLosses } from './losses.ts'
import { deleteOutcomes } from './outcomes.ts'
import { openReader } from './reader.ts'
import { clearStale, staleHours } from './stale-hours.ts'
import { ledgerTable } from './tables.ts'

interface RetentionOptions {
  /** Milliseconds until a row is deleted; called for each run, since a reload may change it. */
  keep: () => number
  now: () => number
  log: Log
  /** Milliseconds between two slices of a run. */
  pauseMs?: number
  /** Milliseconds until the first run; absent: as between two runs. */
  first?: number
  /** Milliseconds of a monotonic clock. */
  clock?: () => number
}

interface Retention {
  /** Runs now and resolves to the number of deleted rows, without those of dropped partitions. */
  run(): Promise<number>
  close(): void
}

/** Rows of one statement that deletes; their number adapts, so that it takes about `ms` milliseconds. */
const slice = { least: 200, most: 10_000, ms: 20 }
/** Milliseconds between two writes of hourly sums, a few rows each. */
const sumsPauseMs = 5
/** Tries to drop a day in one run: a report may hold its lock. */
const dropTries = 5
/** Milliseconds after the end of an hour until all its notices are on disk. */
const settle = 600_000
/** Milliseconds between two runs. */
const runInterval = 600_000

export function createRetention(store: Store, options: RetentionOptions): Retention {
  const { keep, now, log, pauseMs = 50, first } = options
  const { clock = () => performance.now() } = options
  const { db, postgres } = store
  const lease = createLease(db, postgres, now)
  let closed = false
  /** False if closed, or if another node has the lease. */
  const mayContinue = async () => !closed && (await lease.keep())
  const pauseFor = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
  const pause = () => pauseFor(pauseMs)
  // sums are few rows, so that their pauses would take longer than the work
  const briefPause = () => pauseFor(Math.min(pauseMs, sumsPauseMs))

  const read = () => db.selectFrom('rolled').select(['until', 'sealed']).executeTakeFirstOrThrow()

  /** Starts the roll-up at the oldest row. */
  async function begin(end: number): Promise<number> {
    const from = await nextRows(store, 0, hourOf(end))
    await db.updateTable('rolled').set({ until: from, sealed: from }).execute()
    return from
  }

  /** Runs `work` with a read-only connection. */
  async function reading<T>(work: (reader: Pick<Store, 'db' | 'postgres'>) => Promise<T>) {
    // only this thread can use a database in memory
    if (store.url === 'sqlite::memory:') return work(store)
    const reader = await openReader(store.url)
    return work(reader).finally(() => reader.db.destroy())
  }

  /** The first hour of `[from, to)` with rows, or `to`: hours without rows have no sums. */
  async function nextRows({ db }: Pick<Store, 'db'>, from: number, to: number): Promise<number> {
    const { rows } = await sql<{ at: number | null }>`select min(at) as at
      from ${sql.table(ledgerTable(postgres))} where at >= ${from} and at < ${to}`.execute(db)
    const at = rows[0]?.at ?? null
    return at === null ? to : hourOf(at)
  }

  /** Sums the hours of `[from, to)` and records the progress in a column of `rolled`. */
  async function addUp(from: number, to: number, column: 'until' | 'sealed'): Promise<number> {
    if (from >= to) return from
    return reading(async (reader) => {
      let done = from
      while (done < to && (await mayContinue())) {
        const next = await nextRows(reader, done, to)
        if (next < to && column === 'until') await store.ledger.sweepHour(next)
        if (next < to) await addUpHour(store, reader, next, briefPause)
        const mark = Math.min(next + hour, to)
        // if a row of the hour has changed meanwhile, its rows are kept until they are summed again
        const unchanged = sql`and not exists (
          select 1 from stale_hours where hour >= ${done} and hour < ${mark})`
        const { numAffectedRows } = await sql`update rolled set ${sql.ref(column)} = ${mark}
          where ${sql.ref(column)} = ${done} ${column === 'sealed' ? unchanged : sql``}`.execute(db)
        if (numAffectedRows === 0n) break
        done = mark
      }
      return done
    })
  }

  /** Sums the hours of `[from, to)` again in which a row has changed. */
  async function addUpStale(from: number, to: number): Promise<void> {
    const marks = await staleHours(db)
    const stale = marks.filter((each) => each.hour >= from && each.hour < to)
    if (stale.length === 0) return
    await reading(async (reader) => {
      for (const each of stale) {
        if (!(await mayContinue())) return
        await addUpHour(store, reader, each.hour, briefPause)
        await clearStale(db, each)
      }
    })
  }

  /** SQLite: deletes rows of before `before` and returns their number. */
  async function deleteRows(before: number): Promise<number> {
    let gone = 0
    for (let size = slice.least; await mayContinue(); ) {
      const began = clock()
      const { numAffectedRows = 0n } = await sql`
        delete from ledger where rowid in (
          select rowid from ledger where at < ${before} limit ${sql.lit(size)}
        )`.execute(db)
      const took = clock() - began
      gone += Number(numAffectedRows)
      if (numAffectedRows < size) break
      if (took < slice.ms / 2) size = Math.min(slice.most, 2 * size)
      else if (took > slice.ms) size = Math.max(slice.least, size >> 1)
      await pause()
    }
    return gone
  }

  /** Drops the days whose decisions and notices are all of before `before`. */
  async function dropDays(before: number): Promise<void> {
    for (const name of await oldDays(db, before)) {
      for (let tries = dropTries; tries > 0 && (await mayContinue()); tries--) {
        try {
          if (await dropDay(db, name, before)) log.info({ name }, 'a day of the ledger was dropped')
          break
        } catch (error) {
          // the locks were not free; the last try is left to the next run
          if (tries === 1)
            log.warn({ err: (error as Error).message, name }, 'a day was not dropped')
          await pause()
        }
      }
    }
  }

  async function nextDays(): Promise<void> {
    try {
      await createNextDays(db, now())
    } catch (error) {
      const err = (error as Error).message
      log.error({ err }, 'the partitions of the coming days could not be created')
    }
  }

  async function run(): Promise<number> {
    if (!(await lease.take())) return 0
    try {
      if (postgres) await nextDays()
      const end = now() - settle
      let { until, sealed } = await read()
      if (until === 0) {
        until = await begin(end)
        sealed = until
      }
      until = await addUp(until, hourOf(end), 'until')
      await addUpStale(sealed, until)
      const old = now() - keep()
      sealed = await addUp(sealed, Math.min(until, old - (old % day)), 'sealed')
      const gone = postgres ? 0 : await deleteRows(sealed)
      if (postgres) await dropDays(sealed)
      await deleteArmDays(db, now())
      while ((await mayContinue()) && (await deleteLosses(db, old))) await pause()
      // the event log was away for as long as rows are kept
      while ((await mayContinue()) && (await deleteOutcomes(db, old))) await pause()
      if (gone > 0) log.info({ rows: gone }, 'rows older than store.retentionDays were deleted')
      return gone
    } finally {
      if (!closed) await lease.release()
    }
  }

  const start = shareRun(() =>
    run().then(
      () => {},
      (error: Error) => log.warn({ err: error.message }, 'old rows could not be deleted'),
    ),
  )
  const timers = [setInterval(start, runInterval).unref()]
  if (first !== undefined) timers.push(setTimeout(start, first).unref())
  return {
    run,
    close() {
      closed = true
      for (const timer of timers) clearTimeout(timer)
    },
  }
}
