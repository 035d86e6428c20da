/**
 * The price reductions of a day, summed over all nodes, because `caps.perDay` is a limit on their sum. What this node has
 * counted and not stored yet counts at once.
 */
import type { Kysely } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import type { DayAmount, DayReductions } from '../../opd/pricing/day-reductions.ts'
import { type ArmDay, dayNumber, readReductions } from './arm-days.ts'
import type { Tables } from './tables.ts'

interface DayCapsDeps {
  db: Kysely<Tables>
  reductions: DayReductions
  /** Units of a currency per unit of the base currency; null: there is no rate. */
  rate: (currency: string) => number | null
  now: () => number
  log: Log
}

/** Milliseconds between two reads of the sums of all nodes. */
const every = 2000

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

  counted(wins: readonly ArmDay[]): void {
    for (const win of wins) {
      const { day, supplier } = win
      const amount = this.amountOf(win)
      if (amount === 0) continue
      this.pending.set(win, { day, supplier, amount })
      this.deps.reductions.count({ day, supplier, amount })
    }
  }

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
