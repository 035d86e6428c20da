/**
 * The job of a refit and its result, as bytes. Each part begins at a multiple of 4.
 *
 *   job     magic  rows  -  now | features | outcome | least | arrived
 *   result  magic  weights  placements  - | slots | means | variances | keys | firsts | shares | cumulative
 */
import { binCount, type Densities } from '../curve/price-density.ts'
import { featureBytes } from '../features.ts'
import { bytesOf, joined, reader, viewOf } from '../frame.ts'
import { bins } from '../train/delay-shapes.ts'
import type { RowArrays, SettledRows } from './settled-rows.ts'

const [jobMagic, resultMagic] = [0x62774a31, 0x62775231]
const [jobHead, resultHead] = [24, 16]
const alignment = 4

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

const aligned = (head: Uint8Array, parts: readonly ArrayBufferView[]) =>
  joined([
    head,
    ...parts.flatMap((part) => [bytesOf(part), new Uint8Array(-part.byteLength & (alignment - 1))]),
  ])

function writeJob({ features, outcome, least, now, arrived }: Job): Uint8Array {
  const head = new Uint8Array(jobHead)
  const view = viewOf(head)
  view.setUint32(0, jobMagic)
  view.setUint32(4, outcome.length)
  view.setFloat64(16, now)
  return aligned(head, [features, outcome, least, arrived])
}

export function readJob(bytes: Uint8Array): Job {
  const view = viewOf(bytes)
  if (bytes.length < jobHead || view.getUint32(0) !== jobMagic)
    throw new RangeError('not a job of a refit')
  const rows = view.getUint32(4)
  const take = reader(bytes, jobHead, alignment)
  return {
    features: take(rows * featureBytes),
    outcome: take(rows),
    least: new Float32Array(take(4 * rows).buffer),
    arrived: new Float32Array(take(4 * (bins + 1)).buffer),
    now: view.getFloat64(16),
  }
}

export function writeFitted(fitted: Fitted): Uint8Array {
  const { slots, means, variances, keys, firsts, formShares, cumulative } = fitted
  const head = new Uint8Array(resultHead)
  const view = viewOf(head)
  view.setUint32(0, resultMagic)
  view.setUint32(4, slots.length)
  view.setUint32(8, keys.length)
  return aligned(head, [slots, means, variances, keys, firsts, formShares, cumulative])
}

/** Whether bytes are the result of a refit, damaged or not. */
export const isRefit = (bytes: Uint8Array): boolean =>
  bytes.length >= resultHead && viewOf(bytes).getUint32(0) === resultMagic

/**
 * null: damaged, or not a result of a refit.
 *
 * @param bytes what `refit` returned, perhaps on another node
 */
export function readFitted(bytes: Uint8Array): Fitted | null {
  if (!isRefit(bytes)) return null
  const view = viewOf(bytes)
  const [weights, places] = [view.getUint32(4), view.getUint32(8)]
  if (resultHead + 4 * (3 * weights + (3 + binCount) * places) !== bytes.length) return null
  const take = reader(bytes, resultHead)
  return {
    slots: new Uint32Array(take(4 * weights).buffer),
    means: new Float32Array(take(4 * weights).buffer),
    variances: new Float32Array(take(4 * weights).buffer),
    keys: new Uint32Array(take(4 * places).buffer),
    firsts: new Int32Array(take(4 * places).buffer),
    formShares: new Float32Array(take(4 * places).buffer),
    cumulative: new Float32Array(take(4 * places * binCount).buffer),
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
