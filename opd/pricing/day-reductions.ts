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

  /** The amount of wins of this node that are not stored yet. */
  count({ day, supplier, amount }: DayAmount): void {
    const sums = this.sums(supplier, day)
    if (sums.day === day) sums.fresh += amount
  }

  amountOf(supplier: string, time: number): number {
    const sums = this.suppliers.get(supplier)
    return sums === undefined || sums.day !== dayOf(time) ? 0 : sums.stored + sums.fresh
  }

  /** A counted amount is stored now. */
  countStored({ day, supplier, amount }: DayAmount): void {
    const sums = this.suppliers.get(supplier)
    if (sums?.day !== day) return
    sums.fresh -= amount
    sums.stored += amount
  }

  /** A stored sum, of all nodes. */
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
