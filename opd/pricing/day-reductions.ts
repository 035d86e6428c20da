/**
 * The amount that OPD took off the bids that won (in_ba - out_ba), by supplier and UTC day, for `caps.perDay`. Amounts of this
 * node count at once; the sums of all nodes come from the store.
 */
import { getOrAdd } from '../base/get-or-add.ts'
import { summable } from './stats.ts'

/** Money in the base currency. `day` counts from 1970-01-01. */
export interface DayAmount {
  day: number
  supplier: string
  amount: number
}

export const dayOf = (at: number) => Math.floor(at / 86_400_000)

interface Sums {
  day: number
  stored: number
  /** Counted here, and not yet stored. */
  fresh: number
}

export class DayReductions {
  private readonly suppliers = new Map<string, Sums>()
  /** Fresh amounts of days that are over. */
  private past: DayAmount[] = []

  /** `cpm`: in the base currency. */
  add(supplier: string, at: number, cpm: number): void {
    this.sums(supplier, dayOf(at)).fresh += summable(cpm) / 1000
  }

  of(supplier: string, at: number): number {
    const sums = this.suppliers.get(supplier)
    return sums === undefined || sums.day !== dayOf(at) ? 0 : sums.stored + sums.fresh
  }

  /** The amounts that are not in the stored sums yet. */
  fresh(): DayAmount[] {
    const today = Array.from(this.suppliers, ([supplier, { day, fresh }]) => ({
      day,
      supplier,
      amount: fresh,
    }))
    return [...this.past, ...today.filter(({ amount }) => amount !== 0)]
  }

  /** `added` is stored now. Amounts that were counted meanwhile stay fresh. */
  stored(added: readonly DayAmount[]): void {
    for (const { day, supplier, amount } of added) {
      const sums = this.suppliers.get(supplier)
      if (sums?.day === day) {
        sums.fresh -= amount
        sums.stored += amount
      }
    }
    this.past = this.past.filter((each) => !added.includes(each))
  }

  /** A stored sum, of all nodes. */
  load({ day, supplier, amount }: DayAmount): void {
    const sums = this.sums(supplier, day)
    if (sums.day === day) sums.stored = amount
  }

  private sums(supplier: string, day: number): Sums {
    const sums = getOrAdd(this.suppliers, supplier, () => ({ day, stored: 0, fresh: 0 }))
    if (sums.day < day) {
      if (sums.fresh !== 0) this.past.push({ day: sums.day, supplier, amount: sums.fresh })
      Object.assign(sums, { day, stored: 0, fresh: 0 })
    }
    return sums
  }
}
