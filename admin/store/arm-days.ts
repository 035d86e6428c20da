/**
 * Bids and wins of the arms that are compared with each other, by day of UTC: kept wins, kept spend, uplift and the caps of
 * a day are made of them, on all nodes alike and after any restart.
 *
 * Bids are added with their hourly sums. A win is added in the transaction that ends its entry in the journal of outcomes,
 * and a voided one is subtracted in the transaction that voids it, so each counts once, whoever ended in between.
 */
import { type Kysely, sql } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import type { DayAmount, DayReductions } from '../../opd/pricing/day-reductions.ts'
import { type Arm, armRules } from '../../opd/shared/arms.ts'
import { day } from './hour.ts'
import { writeSums } from './sums.ts'
import type { DecidedRow, LedgerRow, Tables } from './tables.ts'

export type ArmDay = Tables['arm_days']
type Key = 'day' | 'supplier' | 'event' | 'mode' | 'arm' | 'currency'
type Sums = Omit<ArmDay, Key>

/** Days for which sums are kept. */
const keptDays = 8

const key = ['day', 'supplier', 'event', 'mode', 'arm', 'currency'] as const satisfies Key[]
const none: Sums = {
  ...{ bids: 0, n: 0, priced: 0, margins: 0, squares: 0, spends: 0, spend_squares: 0 },
  reduced: 0,
}
const sums = Object.keys(none) as (keyof Sums)[]
const target = { table: 'arm_days', key, sums } as const
/** Rows of one statement, 14 columns each. */
const sliceRows = 100
/** As in the sums of an hour: suppliers may send any text as currency. */
const longestCurrency = 16

/**
 * The UTC day of a time, counted from 1970-01-01.
 *
 * @param time milliseconds since the epoch
 */
export const dayNumber = (time: number) => Math.floor(time / day)

const compared: readonly Arm[] = ['treated', 'explored', 'holdout']
const isCompared = (arm: string | null): arm is Arm =>
  (compared as readonly unknown[]).includes(arm)

/** An amount as it counts in sums: 0 beyond the limits of `hour-sums.ts`. */
const plausible = (amount: number) => {
  const size = Math.abs(amount)
  return size >= 1e-9 && size <= 1e9 ? amount : 0
}

/** What an attributed win adds, or with -1 takes away; null: its arm is not compared. */
export function armDayOfWin(row: LedgerRow, sign: 1 | -1 = 1): ArmDay | null {
  const { arm, supplier, mode } = row
  if (supplier === null || !isCompared(arm)) return null
  const isPriced = row.margin !== null
  const margin = isPriced ? plausible(Number(row.margin)) : 0
  const spend = isPriced ? plausible(Number(row.cleared) + Number(row.margin)) : 0
  // the exchange may have left the price of an agent call as it was
  const isReduced =
    isPriced && armRules[arm].priced && (row.applied === null || Number(row.applied) === 1)
  const reduced = isReduced ? plausible(Number(row.in_ba) - Number(row.out_ba)) : 0
  return {
    day: dayNumber(Number(row.at)),
    supplier,
    event: row.event,
    mode: mode ?? '',
    arm,
    currency: (row.currency ?? '').slice(0, longestCurrency),
    bids: 0,
    n: sign,
    priced: isPriced ? sign : 0,
    margins: sign * margin,
    squares: sign * margin ** 2,
    spends: sign * spend,
    spend_squares: sign * spend ** 2,
    reduced: sign * reduced,
  }
}

/** The bids of hourly sums of decisions. Neighbours with the same key are one. */
export function armDaysOfBids(rows: readonly DecidedRow[]): ArmDay[] {
  const days: ArmDay[] = []
  for (const { hour, supplier, mode, arm, bids } of rows) {
    if (!isCompared(arm)) continue
    const day = dayNumber(hour)
    const last = days.at(-1)
    if (last?.supplier === supplier && last.arm === arm && last.mode === mode && last.day === day)
      last.bids += bids
    else days.push({ ...none, day, supplier, mode, arm, bids, event: '', currency: '' })
  }
  return days
}

const keyOf = (row: ArmDay) => key.map((name) => row[name]).join('\0')

/** Rows with the same key are added up. The result is in the order of the keys, so that two nodes do not deadlock. */
function merged(rows: readonly ArmDay[]): ArmDay[] {
  const byKey = new Map<string, ArmDay>()
  for (const row of rows) {
    const name = keyOf(row)
    const known = byKey.get(name)
    if (known === undefined) byKey.set(name, { ...row })
    else for (const sum of sums) known[sum] += row[sum]
  }
  return [...byKey].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
}

/** Adds to the stored sums, within the transaction of what they count. */
export async function addArmDays(trx: Kysely<Tables>, rows: readonly ArmDay[]): Promise<void> {
  const all = merged(rows)
  for (let from = 0; from < all.length; from += sliceRows)
    await writeSums(trx, 'add', target, all.slice(from, from + sliceRows))
}

/**
 * The sums from a day on, by all but the day.
 *
 * @param from the first day, as days since 1970
 */
export async function readArmDays(
  db: Kysely<Tables>,
  from: number,
): Promise<Omit<ArmDay, 'day'>[]> {
  const names = key.slice(1).map((name) => sql.ref(name))
  const totals = sums.map((name) => sql`sum(${sql.ref(name)}) as ${sql.ref(name)}`)
  const { rows } = await sql<Omit<ArmDay, 'day'>>`select ${sql.join([...names, ...totals])}
    from arm_days where day >= ${from} group by ${sql.join(names)}`.execute(db)
  // PostgreSQL adds integers up to decimals
  return rows.map((row) => {
    const numbers = sums.map((name) => [name, Number(row[name])])
    return { ...row, ...Object.fromEntries(numbers) }
  })
}

/** What OPD took off the wins of a day, CPM in the currency of the bids. */
async function readReductions(
  db: Kysely<Tables>,
  dayOfWins: number,
): Promise<Pick<ArmDay, 'supplier' | 'currency' | 'reduced'>[]> {
  const { rows } = await sql<Pick<ArmDay, 'supplier' | 'currency' | 'reduced'>>`
    select supplier, currency, sum(reduced) as reduced from arm_days
    where day = ${dayOfWins} and event <> '' group by supplier, currency`.execute(db)
  return rows
}

export async function deleteArmDays(db: Kysely<Tables>, now: number): Promise<void> {
  await sql`delete from arm_days where day <= ${dayNumber(now) - keptDays}`.execute(db)
}

interface DayCapsDeps {
  db: Kysely<Tables>
  reductions: DayReductions
  /** Units of a currency per unit of the base currency; null: there is no rate. */
  rate: (currency: string) => number | null
  now: () => number
  log: Log
}

/** Milliseconds between two reads of the reductions of all nodes. */
const every = 2000

/**
 * The price reductions of a day, summed over all nodes, because `caps.perDay` is a limit on their sum. What this node has
 * counted and not stored yet counts at once.
 */
export class DayCaps {
  private readonly deps: DayCapsDeps
  /** Amounts of wins that are not stored yet. */
  private readonly pending = new Map<ArmDay, DayAmount>()
  /** Increases whenever sums of this node are stored. */
  private changes = 0
  private lost = false
  private readonly timer: NodeJS.Timeout

  constructor(deps: DayCapsDeps) {
    this.deps = deps
    this.timer = setInterval(() => void this.follow(), every).unref()
  }

  /** @param wins sums that this process has applied, and that are not stored yet: they count at once */
  counted(wins: readonly ArmDay[]): void {
    for (const win of wins) {
      const { day, supplier } = win
      const amount = this.amountOf(win)
      if (amount === 0) continue
      this.pending.set(win, { day, supplier, amount })
      this.deps.reductions.count({ day, supplier, amount })
    }
  }

  /** @param wins of which those that were given to `counted`, the same objects, are now part of the stored sums */
  stored(wins: readonly ArmDay[]): void {
    this.changes++
    for (const win of wins) {
      const amount = this.pending.get(win)
      if (amount !== undefined) this.deps.reductions.countStored(amount)
      this.pending.delete(win)
    }
  }

  /** Reads the sums of all nodes. Rejects if the store is lost. */
  readonly read = oneAtATime(async () => {
    const { db, reductions, now } = this.deps
    const day = dayNumber(now())
    for (;;) {
      const { changes } = this
      const rows = await readReductions(db, day)
      // sums that were stored meanwhile may or may not be among them
      if (changes !== this.changes) continue
      const amounts = new Map<string, number>()
      for (const row of rows)
        amounts.set(row.supplier, (amounts.get(row.supplier) ?? 0) + this.amountOf(row))
      for (const [supplier, amount] of amounts) reductions.loadStored({ day, supplier, amount })
      return
    }
  })

  close(): void {
    clearInterval(this.timer)
  }

  private async follow(): Promise<void> {
    try {
      await this.read()
      this.lost = false
    } catch (error) {
      const err = (error as Error).message
      if (!this.lost) this.deps.log.warn({ err }, 'the price reductions of the day were not read')
      this.lost = true
    }
  }

  /** In units of the base currency. */
  private amountOf({ reduced, currency }: Pick<ArmDay, 'reduced' | 'currency'>): number {
    const rate = this.deps.rate(currency)
    return rate === null ? 0 : reduced / rate / 1000
  }
}
