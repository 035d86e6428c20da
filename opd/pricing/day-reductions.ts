/**
 * The amount that OPD took off the bids that won (in_ba - out_ba), by supplier and UTC day, for `caps.perDay`. Amounts of this
 * node count at once; the sums of all nodes come from the store.
 */
import { getOrAdd } from '../base/get-or-add.ts'

/** Money in the base currency. `day` counts from 1970-01-01. */
export interface DayAmount {
  day: number
  supplier: string
  amount: number
}

/**
 * The UTC day of a time, counted from 1970-01-01.
 *
 * @param time milliseconds since the epoch
 */
export const dayOf = (time: number) => Math.floor(time / 86_400_000)

interface Sums {
  day: number
  stored: number
  /** Counted here, and not yet stored. */
  fresh: number
}

/** The amounts of the latest day of each supplier. Amounts of earlier days are ignored. */
export class DayReductions {
  private readonly suppliers = new Map<string, Sums>()

  /** @param amount of a win of this node that is not stored yet */
  count({ day, supplier, amount }: DayAmount): void {
    const sums = this.sums(supplier, day)
    if (sums.day === day) sums.fresh += amount
  }

  /**
   * The amount of a supplier on a day so far, in the base currency.
   *
   * @param supplier identifier
   * @param time milliseconds since the epoch, of the day
   */
  amountOf(supplier: string, time: number): number {
    const sums = this.suppliers.get(supplier)
    return sums === undefined || sums.day !== dayOf(time) ? 0 : sums.stored + sums.fresh
  }

  /** @param amount one that was given to `count`, and is part of the stored sums now */
  countStored({ day, supplier, amount }: DayAmount): void {
    const sums = this.suppliers.get(supplier)
    if (sums?.day !== day) return
    sums.fresh -= amount
    sums.stored += amount
  }

  /** @param amount the sum of all nodes in the store, which replaces the one before */
  loadStored({ day, supplier, amount }: DayAmount): void {
    const sums = this.sums(supplier, day)
    if (sums.day === day) sums.stored = amount
  }

  /** Begins a later day. */
  private sums(supplier: string, day: number): Sums {
    const sums = getOrAdd(this.suppliers, supplier, () => ({ day, stored: 0, fresh: 0 }))
    if (sums.day < day) Object.assign(sums, { day, stored: 0, fresh: 0 })
    return sums
  }
}
