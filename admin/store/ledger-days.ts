/**
 * The days of the ledger in PostgreSQL: one partition of `ledger_days` for each day of decision. The day of a row follows
 * from its decision, so the key of each partition keeps the rows of one decision unique.
 */
import { type Kysely, sql, type Transaction } from 'kysely'
import { day } from './hour.ts'
import type { Tables } from './tables.ts'

/** The day of a row: that of its decision, or that of the notice where no decision is known. */
export const dayOfRow = ({ decided_at, at }: { decided_at: number | null; at: number }) =>
  Math.trunc((decided_at ?? at) / day)

interface Partition {
  name: string
  /** The first day after it. */
  end: number
}

/** Days that have a partition before they begin: nodes may write for this long if none can be created. */
const daysAhead = 7
/** Longest wait for locks in milliseconds: statements that store wins queue behind it. */
const lockTimeout = 500
/** The key of the advisory lock under which partitions change. */
const advisoryKey = 4217003

async function partitionsOf(db: Kysely<Tables>): Promise<Partition[]> {
  const { rows } = await sql<{ name: string; bound: string }>`
    select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bound
    from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'ledger_days'::regclass`.execute(db)
  return rows
    .map(({ name, bound }) => ({ name, end: Number(/TO \('?(-?\d+)'?\)/.exec(bound)?.[1]) }))
    .sort((one, other) => one.end - other.end)
}

const changing = <T>(db: Kysely<Tables>, work: (trx: Transaction<Tables>) => Promise<T>) =>
  db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${sql.lit(advisoryKey)})`.execute(trx)
    return work(trx)
  })

/** Creates the partition of a day if there is none. Statements that store wins go on meanwhile. */
async function createDay(db: Kysely<Tables>, dayNumber: number): Promise<void> {
  await changing(db, async (trx) => {
    const partitions = await partitionsOf(trx)
    if (partitions.some(({ end }) => end === dayNumber + 1)) return
    const name = sql.table(`ledger_day_${dayNumber}`)
    await sql`create table ${name} (like ledger_days including all)`.execute(trx)
    await sql`alter table ledger_days attach partition ${name}
      for values from (${sql.lit(dayNumber)}) to (${sql.lit(dayNumber + 1)})`.execute(trx)
  })
}

interface LedgerDays {
  /** Creates the partitions that these days do not have. */
  ensure(days: Iterable<number>): Promise<void>
  /** Looks again for the partitions of all days: another node may have dropped one. */
  forget(): void
}

export function createLedgerDays(db: Kysely<Tables>): LedgerDays {
  let known = new Set<number>()
  return {
    async ensure(days) {
      for (const each of days) {
        if (known.has(each)) continue
        await createDay(db, each)
        known.add(each)
      }
    },
    forget() {
      known = new Set()
    },
  }
}

/** Creates the partitions of the coming days. */
export async function createNextDays(db: Kysely<Tables>, now: number): Promise<void> {
  const today = Math.trunc(now / day)
  const ends = new Set((await partitionsOf(db)).map(({ end }) => end))
  for (let each = today; each <= today + daysAhead; each++)
    if (!ends.has(each + 1)) await createDay(db, each)
}

/** Days whose decisions are old enough to be dropped. */
export async function oldDays(db: Kysely<Tables>, before: number): Promise<string[]> {
  const partitions = await partitionsOf(db)
  return partitions.filter(({ end }) => end * day <= before).map(({ name }) => name)
}

/**
 * Drops the partition if all its notices arrived before `before`; false if not. Rejects if the locks are not free
 * soon.
 */
export function dropDay(db: Kysely<Tables>, name: string, before: number): Promise<boolean> {
  return changing(db, async (trx) => {
    await sql`set local lock_timeout = ${sql.lit(lockTimeout)}`.execute(trx)
    // the whole ledger first, as statements that store wins lock it
    await sql`lock table only ledger_days in access exclusive mode`.execute(trx)
    const partition = sql.table(name)
    const { rows } = await sql`select 1 from ${partition} where at >= ${before} limit 1`.execute(
      trx,
    )
    if (rows.length > 0) return false
    await sql`drop table ${partition}`.execute(trx)
    return true
  })
}
