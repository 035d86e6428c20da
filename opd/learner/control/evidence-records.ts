/**
 * Sums of evidence by supplier, as deltas carry them:
 *
 *   supplier  sums
 *   4         8 x 84
 */
import { evidenceWidth } from './kept.ts'

const recordBytes = 4 + 8 * evidenceWidth

export function writeRecords(sums: readonly (readonly [number, Float64Array])[]): Uint8Array {
  const bytes = new Uint8Array(sums.length * recordBytes)
  const view = new DataView(bytes.buffer)
  let offset = 0
  for (const [supplier, of] of sums) {
    view.setUint32(offset, supplier)
    for (let n = 0; n < evidenceWidth; n++) view.setFloat64(offset + 4 + 8 * n, of[n]!)
    offset += recordBytes
  }
  return bytes
}

/** What is no record, or holds a number that is none, is left out. */
export function* readRecords(bytes: Uint8Array): Generator<[number, Float64Array]> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let offset = 0; offset + recordBytes <= bytes.length; offset += recordBytes) {
    const sums = Float64Array.from({ length: evidenceWidth }, (_each, n) =>
      view.getFloat64(offset + 4 + 8 * n),
    )
    if (sums.every(Number.isFinite)) yield [view.getUint32(offset), sums]
  }
}
