/** The job of a refit and its result, as frames. */
import { drained } from '../../base/slices.ts'
import type { Densities } from '../curve/price-density.ts'
import { framed, joined, unframing, viewOf } from '../frame.ts'
import type { RowArrays, SettledRows } from './settled-rows.ts'

const [jobMagic, resultMagic] = [0x62774a32, 0x62775232]
const jobParts = ['features', 'outcome', 'least', 'now', 'arrived'] as const
const resultParts = [
  ...(['slots', 'means', 'variances'] as const),
  ...(['keys', 'firsts', 'formShares', 'cumulative'] as const),
] as const

export interface Job extends RowArrays {
  /** Milliseconds since the epoch. */
  now: number
  /** Share of notices that have arrived by the start of each bin of ages, and at last. */
  arrived: Float32Array
}

interface Fitted extends Densities {
  slots: Uint32Array
  means: Float32Array
  variances: Float32Array
}

const writeJob = (job: Job): Uint8Array =>
  joined(drained(framed(jobMagic, jobParts, { ...job, now: Float64Array.of(job.now) })))

export function readJob(bytes: Uint8Array): Job {
  const read = drained(unframing(jobMagic, jobParts, bytes))
  if (read === null) throw new RangeError('not a job of a refit')
  const { features, outcome, least, now, arrived } = read
  return {
    ...{ features, outcome, least: floats(least), arrived: floats(arrived) },
    now: new Float64Array(copied(now))[0]!,
  }
}

/** Copies, because the bytes of a part may begin at any place. */
const copied = (bytes: Uint8Array): ArrayBuffer => new Uint8Array(bytes).buffer
const floats = (bytes: Uint8Array) => new Float32Array(copied(bytes))
const words = (bytes: Uint8Array) => new Uint32Array(copied(bytes))

export const writeFitted = (fitted: Fitted): Uint8Array =>
  joined(drained(framed(resultMagic, resultParts, fitted)))

/** Whether bytes are the result of a refit, damaged or not. */
export const isRefit = (bytes: Uint8Array): boolean =>
  bytes.length >= 4 && viewOf(bytes).getUint32(0) === resultMagic

/**
 * null: damaged, or not a result of a refit.
 *
 * @param bytes what `refit` returned, perhaps on another node
 */
export function readFitted(bytes: Uint8Array): Fitted | null {
  const read = drained(unframing(resultMagic, resultParts, bytes))
  return read === null
    ? null
    : {
        slots: words(read.slots),
        means: floats(read.means),
        variances: floats(read.variances),
        keys: words(read.keys),
        firsts: new Int32Array(copied(read.firsts)),
        formShares: floats(read.formShares),
        cumulative: floats(read.cumulative),
      }
}

/**
 * A refit is due after `interval` milliseconds, if `newRows` more rows settled since the last one, or a share `growth` of all
 * rows. Each needs `fewest` rows in the window.
 */
const fewest = 400
const [growth, newRows, interval] = [0.2, 4000, 60_000]

/** Decides when a refit is due. */
export class RefitSchedule {
  /** Rows that had settled at the last refit. */
  private rows = 0
  private fittedAt = Number.NEGATIVE_INFINITY

  saved(): [number, number] {
    return [this.rows, Number.isFinite(this.fittedAt) ? this.fittedAt : 0]
  }

  /**
   * Sets the last refit.
   *
   * @param rows that had settled then, of all times (`SettledRows.settled`)
   * @param now milliseconds since the epoch
   */
  fitted(rows: number, now: number): void {
    this.rows = rows
    this.fittedAt = now
  }

  /**
   * The bytes of a job, which counts as done; null: no refit is due.
   *
   * @param settled the window; copied
   * @param now milliseconds since the epoch
   * @param arrived shares of notices by age (`NoticeDelays.shares`)
   */
  job(settled: SettledRows, now: number, arrived: Float32Array): Uint8Array | null {
    if (settled.size < fewest || now - this.fittedAt < interval) return null
    if (settled.settled - this.rows < Math.min(newRows, settled.settled * growth)) return null
    this.rows = settled.settled
    this.fittedAt = now
    return writeJob({ ...settled.copy(), now, arrived })
  }
}
