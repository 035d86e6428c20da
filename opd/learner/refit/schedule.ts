/** When a refit is due. */
import { writeJob } from './job.ts'
import type { SettledRows } from './settled-rows.ts'

/** Rows before the first fit; rows that settled since the last, as a share of all, and at most; milliseconds since. */
const fewest = 400
const [growth, newRows, interval] = [0.2, 4000, 60_000]

export class RefitSchedule {
  private rows = 0
  private at = Number.NEGATIVE_INFINITY

  /** Another node made the last fit, of so many rows. */
  fitted(rows: number, now: number): void {
    this.rows = rows
    this.at = now
  }

  /** The rows to fit again, with the result of the fit before; null: not now. */
  job(settled: SettledRows, now: number, patience: number, before: Uint8Array): Uint8Array | null {
    if (settled.size < fewest || now - this.at < interval) return null
    if (settled.settled - this.rows < Math.min(newRows, settled.settled * growth)) return null
    this.rows = settled.settled
    this.at = now
    return writeJob({ ...settled.copy(), now, patience, before })
  }
}
