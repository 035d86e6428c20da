/**
 * Roll-up and retention of the ledger. Each hour is summed after it has passed, and again before its rows are
 * deleted; the sums are kept. Rows are deleted by whole days: PostgreSQL drops their partitions; SQLite deletes slices that
 * take some milliseconds, so that no win waits. One node does this at a time.
 */
import { sql } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { shareRun } from '../../opd/base/one-at-a-time.ts'
import { deleteAlerts } from './alerts.ts'
import { deleteArmDays } from './arm-days.ts'
import { day, hour, hourOf } from './hour.ts'
import { addUpHour } from './hour-sums.ts'
import type { Store } from './index.ts'
import { createLease } from './lease.ts'
import { createNextDays, dropDay, oldDays } from './ledger-sql.ts'
import { deleteLosses } from './losses.ts'
import { deleteMinutes } from './minutes.ts'
import { deleteOutcomes } from './outcomes.ts'
import { openReader } from './reader.ts'
import { clearStale, staleHours } from './stale-hours.ts'
import { ledgerTable } from './tables.ts'
import { deleteUnsentDeltas } from './unsent-deltas.ts'

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

const pauseFor = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Deletes old rows, and sums hours. One node does so at a time. */
export class Retention {
  private readonly store: Store
  private readonly options: RetentionOptions
  private readonly lease: ReturnType<typeof createLease>
  private readonly pauseMs: number
  private readonly clock: () => number
  private readonly timers: NodeJS.Timeout[]
  private closed = false

  constructor(store: Store, options: RetentionOptions) {
    const { now, log, first, pauseMs = 50, clock = () => performance.now() } = options
    this.store = store
    this.options = options
    this.lease = createLease(store.db, store.postgres, now)
    this.pauseMs = pauseMs
    this.clock = clock
    const start = shareRun(async () => {
      await this.run().catch((error: Error) =>
        log.warn({ err: error.message }, 'old rows could not be deleted'),
      )
    })
    this.timers = [setInterval(start, runInterval).unref()]
    if (first !== undefined) this.timers.push(setTimeout(start, first).unref())
  }

  /** Runs now and resolves to the number of deleted rows, without those of dropped partitions. */
  async run(): Promise<number> {
    if (!(await this.lease.takeLease())) return 0
    try {
      return await this.addUpAndDelete()
    } finally {
      if (!this.closed) await this.lease.release()
    }
  }

  close(): void {
    this.closed = true
    for (const timer of this.timers) clearTimeout(timer)
  }

  private async addUpAndDelete(): Promise<number> {
    const { db, postgres } = this.store
    const { keep, now, log } = this.options
    if (postgres) await this.nextDays()
    const end = now() - settle
    let { until, sealed } = await db
      .selectFrom('rolled')
      .select(['until', 'sealed'])
      .executeTakeFirstOrThrow()
    if (until === 0) {
      until = await this.begin(end)
      sealed = until
    }
    until = await this.addUp(until, hourOf(end), 'until')
    await this.addUpStale(sealed, until)
    const old = now() - keep()
    sealed = await this.addUp(sealed, Math.min(until, old - (old % day)), 'sealed')
    const gone = postgres ? 0 : await this.deleteRows(sealed)
    if (postgres) await this.dropDays(sealed)
    await deleteArmDays(db, now())
    await deleteAlerts(db, now())
    while ((await this.mayContinue()) && (await deleteMinutes(db, now()))) await this.pause()
    while ((await this.mayContinue()) && (await deleteLosses(db, old))) await this.pause()
    // the event log was away for as long as rows are kept
    while ((await this.mayContinue()) && (await deleteOutcomes(db, old))) await this.pause()
    await deleteUnsentDeltas(db, old)
    if (gone > 0) log.info({ rows: gone }, 'rows older than store.retentionDays were deleted')
    return gone
  }

  /** False if closed, or if another node has the lease. */
  private async mayContinue(): Promise<boolean> {
    return !this.closed && (await this.lease.keep())
  }

  private pause(): Promise<void> {
    return pauseFor(this.pauseMs)
  }

  /** Sums are few rows, so that whole pauses would take longer than the work. */
  private readonly briefPause = () => pauseFor(Math.min(this.pauseMs, sumsPauseMs))

  /** Starts the roll-up at the oldest row. */
  private async begin(end: number): Promise<number> {
    const from = await this.nextRows(this.store, 0, hourOf(end))
    await this.store.db.updateTable('rolled').set({ until: from, sealed: from }).execute()
    return from
  }

  /** Runs `work` with a read-only connection. */
  private async reading<T>(
    work: (reader: Pick<Store, 'db' | 'postgres'>) => Promise<T>,
  ): Promise<T> {
    const { store } = this
    // only this thread can use a database in memory
    if (store.url === 'sqlite::memory:') return work(store)
    const reader = await openReader(store.url)
    return work(reader).finally(() => reader.db.destroy())
  }

  /** The first hour of `[from, to)` with rows, or `to`: hours without rows have no sums. */
  private async nextRows({ db }: Pick<Store, 'db'>, from: number, to: number): Promise<number> {
    const { rows } = await sql<{ at: number | null }>`select min(at) as at
      from ${sql.table(ledgerTable(this.store.postgres))}
      where at >= ${from} and at < ${to}`.execute(db)
    const time = rows[0]?.at ?? null
    return time === null ? to : hourOf(time)
  }

  /** Sums the hours of `[from, to)` and records the progress in a column of `rolled`. */
  private async addUp(from: number, to: number, column: 'until' | 'sealed'): Promise<number> {
    if (from >= to) return from
    const { store } = this
    return this.reading(async (reader) => {
      let done = from
      while (done < to && (await this.mayContinue())) {
        const next = await this.nextRows(reader, done, to)
        if (next < to && column === 'until') await store.ledger.sweepHour(next)
        if (next < to) await addUpHour(store, reader, next, this.briefPause)
        const mark = Math.min(next + hour, to)
        // if a row of the hour has changed meanwhile, its rows are kept until they are summed again
        const unchanged = sql`and not exists (
          select 1 from stale_hours where hour >= ${done} and hour < ${mark})`
        const { numAffectedRows } = await sql`update rolled set ${sql.ref(column)} = ${mark}
          where ${sql.ref(column)} = ${done} ${column === 'sealed' ? unchanged : sql``}`.execute(
          store.db,
        )
        if (numAffectedRows === 0n) break
        done = mark
      }
      return done
    })
  }

  /** Sums the hours of `[from, to)` again in which a row has changed. */
  private async addUpStale(from: number, to: number): Promise<void> {
    const { store } = this
    const marks = await staleHours(store.db)
    const stale = marks.filter((mark) => mark.hour >= from && mark.hour < to)
    if (stale.length === 0) return
    await this.reading(async (reader) => {
      for (const mark of stale) {
        if (!(await this.mayContinue())) return
        await addUpHour(store, reader, mark.hour, this.briefPause)
        await clearStale(store.db, mark)
      }
    })
  }

  /** SQLite: deletes rows of before `before` and returns their number. */
  private async deleteRows(before: number): Promise<number> {
    let gone = 0
    for (let size = slice.least; await this.mayContinue(); ) {
      const began = this.clock()
      const { numAffectedRows = 0n } = await sql`
        delete from ledger where rowid in (
          select rowid from ledger where at < ${before} limit ${sql.lit(size)}
        )`.execute(this.store.db)
      const took = this.clock() - began
      gone += Number(numAffectedRows)
      if (numAffectedRows < size) break
      if (took < slice.ms / 2) size = Math.min(slice.most, 2 * size)
      else if (took > slice.ms) size = Math.max(slice.least, size >> 1)
      await this.pause()
    }
    return gone
  }

  /** Drops the days whose decisions and notices are all of before `before`. */
  private async dropDays(before: number): Promise<void> {
    const { db } = this.store
    const { log } = this.options
    for (const name of await oldDays(db, before)) {
      for (let tries = dropTries; tries > 0 && (await this.mayContinue()); tries--) {
        try {
          if (await dropDay(db, name, before)) log.info({ name }, 'a day of the ledger was dropped')
          break
        } catch (error) {
          // the locks were not free; the last try is left to the next run
          if (tries === 1)
            log.warn({ err: (error as Error).message, name }, 'a day was not dropped')
          await this.pause()
        }
      }
    }
  }

  private async nextDays(): Promise<void> {
    const { now, log } = this.options
    try {
      await createNextDays(this.store.db, now())
    } catch (error) {
      const err = (error as Error).message
      log.error({ err }, 'the partitions of the coming days could not be created')
    }
  }
}
