/**
 * Bids and wins of optimized bids and of the holdout over the last days, of all nodes, from the store: console and metrics
 * show the kept wins, kept spend and uplift that a report of these days shows.
 */
import type { Kysely } from 'kysely'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { createSlices } from '../../opd/base/slices.ts'
import { addWinSums, armIn, type ComparedArms, noArms, type ReportRules } from '../reports/arms.ts'
import { dayNumber, readArmDays } from '../store/arm-days.ts'
import type { Tables } from '../store/tables.ts'

/** Days of UTC that are compared, today included. */
export const comparedDays = 7
/** A read is used again for so many times its duration. */
const rest = 3

interface KeptSumsDeps {
  db: Kysely<Tables>
  /** Days of UTC, today included. */
  days: number
  /** Stores what this node has counted so far. */
  flush: () => Promise<unknown>
  rules: () => ReportRules
  now: () => number
  log: Log
}

/** The sums of the compared arms over some days, read from the store when they are asked for and not too young. */
export class KeptSums {
  private readonly deps: KeptSumsDeps
  /** By supplier, then by mode. */
  private latest: ReadonlyMap<string, ReadonlyMap<string, ComparedArms>> = new Map()
  private next = Number.NEGATIVE_INFINITY

  constructor(deps: KeptSumsDeps) {
    this.deps = deps
  }

  /** The sums that were read last; null without bids. */
  armsOf(supplier: string, mode: string): ComparedArms | null {
    return this.latest.get(supplier)?.get(mode) ?? null
  }

  /** All sums that were read last, by supplier and mode. */
  *all(): Generator<{ ssp: string; mode: string; arms: ComparedArms }> {
    for (const [ssp, byMode] of this.latest)
      for (const [mode, arms] of byMode) yield { ssp, mode, arms }
  }

  /** Reads the sums of all nodes. While the store is lost, those that were read last stay. */
  readonly read = oneAtATime(async () => {
    const began = performance.now()
    if (began < this.next) return
    const { db, days, flush, rules, now, log } = this.deps
    try {
      await flush()
      const rows = await readArmDays(db, dayNumber(now()) - days + 1)
      const settings = rules()
      const found = new Map<string, Map<string, ComparedArms>>()
      const slices = createSlices()
      for (const row of rows) {
        const byMode = getOrAdd(found, row.supplier, (): Map<string, ComparedArms> => new Map())
        const arms = getOrAdd(byMode, row.mode, noArms)
        const arm = armIn(arms, row.arm)
        if (arm !== null) arm.bids += row.bids
        if (row.event !== '') addWinSums(arms, row, settings)
        await slices.next()
      }
      this.latest = found
    } catch (error) {
      log.warn({ err: (error as Error).message }, 'the sums of kept wins could not be read')
    }
    const ended = performance.now()
    this.next = ended + rest * (ended - began)
  })
}
