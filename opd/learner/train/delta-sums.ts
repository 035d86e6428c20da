/**
 * Notices by age and the evidence of each supplier, summed over the deltas of all nodes. One node reads these deltas. The others
 * receive its sums, and merge the difference to the sums that they had before.
 *
 *   notices by age  records of suppliers
 *   8 x 60          676 each
 */

import { readRecords, writeRecords } from '../control/evidence.ts'
import { suppliersKept } from '../control/visits.ts'
import { floatsAt, writeFloats } from '../frame.ts'
import { binOf, bins, middles } from './delay-shapes.ts'
import { winAges } from './update-log.ts'

const agesBytes = 8 * bins
/** Suppliers that are written in one slice. */
const writtenAtOnce = 200

export class DeltaSums {
  private readonly ages = new Float64Array(bins)
  private readonly suppliers = new Map<number, Float64Array>()

  /** `bytes`: of other sums. Without bytes, or with too few, all sums are 0. */
  constructor(bytes: Uint8Array = new Uint8Array(0)) {
    if (bytes.length < agesBytes) return
    const ages = floatsAt(bytes, 0, bins)
    this.ages.set(ages.map((count) => (Number.isFinite(count) ? count : 0)))
    this.addRecords(bytes.subarray(agesBytes))
  }

  /**
   * Adds one delta.
   *
   * @param rows whole rows of an update log
   * @param records sums of suppliers, as `writeRecords` writes them
   */
  addDelta(rows: Uint8Array, records: Uint8Array): void {
    for (const age of winAges(rows)) this.ages[binOf(age)]!++
    this.addRecords(records)
  }

  private addRecords(records: Uint8Array): void {
    const { suppliers } = this
    for (const [supplier, sums] of readRecords(records)) {
      const known = suppliers.get(supplier)
      // A new array, because the one before may be a part of a snapshot that is written now.
      if (known !== undefined)
        suppliers.set(
          supplier,
          known.map((sum, n) => sum + sums[n]!),
        )
      else if (suppliers.size < suppliersKept) suppliers.set(supplier, sums)
    }
  }

  /**
   * What was added: ages of notices in milliseconds, and records.
   *
   * @param other earlier sums of the same deltas
   */
  since(other: DeltaSums): { ages: number[]; records: Uint8Array } {
    const ages = [...this.ages].flatMap((count, n) =>
      Array<number>(Math.max(0, Math.round(count - other.ages[n]!))).fill(middles[n]!),
    )
    const news = [...this.suppliers].flatMap(([supplier, sums]): [number, Float64Array][] => {
      const before = other.suppliers.get(supplier)
      const added = before === undefined ? sums : sums.map((sum, n) => sum - before[n]!)
      return added.some((sum) => sum !== 0) ? [[supplier, added]] : []
    })
    return { ages, records: writeRecords(news) }
  }

  /** The bytes of this moment, in pieces that are made in slices. */
  saving(): Generator<undefined, Uint8Array[]> {
    const ages = new Uint8Array(agesBytes)
    writeFloats(ages, 0, this.ages)
    return written(ages, [...this.suppliers])
  }
}

function* written(
  ages: Uint8Array,
  suppliers: readonly (readonly [number, Float64Array])[],
): Generator<undefined, Uint8Array[]> {
  const pieces = [ages]
  for (let index = 0; index < suppliers.length; index += writtenAtOnce) {
    pieces.push(writeRecords(suppliers.slice(index, index + writtenAtOnce)))
    yield
  }
  return pieces
}
